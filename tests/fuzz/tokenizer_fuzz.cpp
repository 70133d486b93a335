// Any bytes as text, by each rule: the ids give back the text, and a user's text never gives a control token.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "support/byte_vocabulary.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/utf8_stream.h"

namespace {

using namespace kvplane;

std::unique_ptr<Tokenizer> make(const char* rule) {
    const test::Bytes bytes = test::byte_vocabulary(rule).build();
    return Tokenizer::from_gguf(GgufFile::parse(bytes, "fuzz.gguf"));
}

void require(bool condition) {
    if (!condition) std::abort();
}

void check(const Tokenizer& tokenizer, std::string_view text) {
    const std::vector<int32_t> literal = tokenizer.encode(text, false);
    require(tokenizer.decode(literal) == text);
    for (const int32_t id : literal) require(!tokenizer.is_control(id));
    const std::vector<int32_t> parsed = tokenizer.encode(text, true);
    require(tokenizer.decode(parsed, true) == text);

    Utf8Stream stream;
    std::string shown;
    for (const int32_t id : literal) shown += stream.push(tokenizer.piece(id));
    shown += stream.finish();
    Utf8Stream whole;
    require(shown == whole.push(text) + whole.finish());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static const auto gpt2 = make("gpt-2"), llama3 = make("llama-bpe"), smollm = make("smollm");
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    for (const auto* tokenizer : {&gpt2, &llama3, &smollm}) check(**tokenizer, text);
    return 0;
}
