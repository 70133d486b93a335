// make_corpus FOLDER: writes seeds for the fuzz targets to FOLDER/gguf and FOLDER/tokenizer.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "support/byte_vocabulary.h"
#include "support/tiny_llama.h"

namespace {

using namespace kvplane::test;

void write(const std::filesystem::path& path, const Bytes& bytes) {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

void write_text(const std::filesystem::path& path, std::string_view text) {
    Bytes bytes;
    append_raw(bytes, text);
    write(path, bytes);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) {
        std::fprintf(stderr, "usage: make_corpus FOLDER\n");
        return 2;
    }
    const std::filesystem::path gguf = std::filesystem::path(argv[1]) / "gguf";
    const std::filesystem::path tokenizer = std::filesystem::path(argv[1]) / "tokenizer";
    std::filesystem::create_directories(gguf);
    std::filesystem::create_directories(tokenizer);

    write(gguf / "model", tiny_llama({.layers = 1}).build());
    write(gguf / "untied", tiny_llama({.layers = 1, .tied_output = false}).zeros("rope_freqs.weight", {1}).build());
    write(gguf / "vocabulary",
          byte_vocabulary("smollm").string("tokenizer.chat_template", "<|im_start|><|im_end|>").build());
    GgufBuilder scaled = tiny_llama({.layers = 1});
    scaled.string("llama.rope.scaling.type", "yarn").f32("llama.rope.scaling.factor", 4.0f);
    scaled.array<uint32_t>("list", gguf_u32, {1, 2}).u32("general.alignment", 64).alignment = 64;
    write(gguf / "scaled", scaled.build());

    write_text(tokenizer / "words", "I've  two   spaces\n\n\tand 12345.67! DON'T <|im_end|>");
    write_text(tokenizer / "letters",
               "na\u00efve caf\u00e9 \u4f60\u597d \U0001f642 \u00bd\u00b2\u2167 \u00a0\u3000x\u0301");
    write_text(tokenizer / "bytes", "\xff\xfe\x80 \xe4\xbd\r\n \xf0\x9f\x99");
    return 0;
}
