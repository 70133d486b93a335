// tokenize_file MODEL TEXT: the token ids of a whole file, one a line, for tokenizer_check.py. Special tokens are not
// parsed. Times go to stderr.
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "base/error.h"
#include "model/model.h"
#include "tokenizer/tokenizer.h"

namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

void tokenize(const char* model_path, const char* text_path) {
    std::ifstream stream(text_path, std::ios::binary);
    if (!stream) throw kvplane::Error(kvplane::ErrorKind::usage, std::string(text_path) + ": cannot be read");
    const std::string text(std::istreambuf_iterator<char>(stream), {});

    auto start = Clock::now();
    const auto model = kvplane::Model::open(model_path);
    const double open_time = milliseconds_since(start);
    start = Clock::now();
    const auto tokenizer = kvplane::Tokenizer::from_gguf(model->file());
    const double tokenizer_time = milliseconds_since(start);
    start = Clock::now();
    const auto ids = tokenizer->encode(text, false);
    const double encode_time = milliseconds_since(start);

    for (const int32_t id : ids) std::printf("%d\n", id);
    std::fprintf(stderr,
                 "model opened in %.1f ms, tokenizer built in %.1f ms, %zu bytes encoded to %zu ids in %.1f ms\n",
                 open_time, tokenizer_time, text.size(), ids.size(), encode_time);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3) {
        std::fprintf(stderr, "usage: tokenize_file MODEL TEXT\n");
        return 2;
    }
    try {
        tokenize(argv[1], argv[2]);
        return 0;
    } catch (const kvplane::Error& error) {
        std::fprintf(stderr, "tokenize_file: %s\n", error.what());
        return static_cast<int>(error.kind());
    }
}
