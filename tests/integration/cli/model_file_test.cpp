// Model files that are damaged, or made to do damage: code 4 and the reason, never a crash (under ASan and UBSan in the
// asan preset).
#include "command_line.h"
#include "support/byte_vocabulary.h"
#include "support/tiny_llama.h"

#include <set>

namespace kvplane::test {

namespace {

GgufBuilder whole_model() {
    const GgufBuilder vocabulary = byte_vocabulary("smollm");
    GgufBuilder model = tiny_llama({.width = 64, .feed_forward_width = 32, .head_size = 16, .vocabulary = 265});
    model.entries.insert(model.entries.end(), vocabulary.entries.begin(), vocabulary.entries.end());
    return model;
}

constexpr uint64_t huge = uint64_t{1} << 63;

}  // namespace

class ModelFile : public CommandLine {
protected:
    Arguments run_of(const std::string& file) const { return {"run", "-m", file, "--prompt", "the", "-n", "2"}; }

    void expect_rejected(const GgufBuilder& model, const Arguments& parts) const {
        const std::string file = write("model.gguf", model.build());
        Arguments all = parts;
        all.push_back(file);
        expect_refusal(run_of(file), 4, all);
        expect_refusal({"model", "info", file}, 4, all);
    }
};

TEST_F(ModelFile, of_this_test_is_sound_before_it_is_broken) {
    output(run_of(write("model.gguf", whole_model().build())));
}

TEST_F(ModelFile, cut_off_at_any_tensor_s_border_is_refused) {
    const GgufBuilder model = whole_model();
    const Bytes bytes = model.build();
    const std::vector<size_t> borders = model.borders();
    const std::set<size_t> cuts(borders.begin(), borders.end());
    ASSERT_GT(cuts.size(), model.tensors.size());
    for (const size_t cut : cuts) {
        if (cut == bytes.size()) continue;
        const std::string file =
            write("cut.gguf", Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(cut)));
        expect_refusal(run_of(file), 4, {file, "tensor"});
    }
}

TEST_F(ModelFile, cut_off_within_its_header_is_refused) {
    const GgufBuilder model = whole_model();
    const Bytes bytes = model.build();
    const size_t header = model.borders().front();
    for (size_t cut = 0; cut < header; cut += 1 + header / 40) {
        const std::string file =
            write("cut.gguf", Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(cut)));
        expect_refusal({"model", "info", file}, 4, {file});
    }
}

TEST_F(ModelFile, with_counts_and_sizes_of_2_to_the_63_is_refused) {
    GgufBuilder model = whole_model();
    model.tensor_count = huge;
    expect_rejected(model, {"9223372036854775808"});
    model = whole_model();
    model.entry_count = huge;
    expect_rejected(model, {"9223372036854775808"});
    model = whole_model();
    model.find_tensor("blk.0.attn_q.weight").shape = {huge, 1};
    expect_rejected(model, {"blk.0.attn_q.weight"});
    model = whole_model();
    model.find_tensor("blk.0.attn_q.weight").shape = {uint64_t{1} << 32, uint64_t{1} << 32};
    expect_rejected(model, {"blk.0.attn_q.weight"});
    model = whole_model();
    model.find_tensor("blk.1.ffn_up.weight").offset = huge;
    expect_rejected(model, {"blk.1.ffn_up.weight"});
    for (const char* key : {"llama.block_count", "llama.embedding_length", "llama.attention.head_count"}) {
        model = whole_model();
        model.remove(key).value(key, gguf_u64, huge);
        expect_rejected(model, {key});
    }
    // A string and an array of that length.
    model = whole_model();
    Bytes text;
    append(text, uint32_t{gguf_string});
    append(text, huge);
    model.raw("general.description", text);
    expect_rejected(model, {"general.description"});
    model = whole_model();
    Bytes array;
    append(array, uint32_t{gguf_array});
    append(array, uint32_t{gguf_u32});
    append(array, huge);
    model.raw("general.numbers", array);
    expect_rejected(model, {"general.numbers"});
}

TEST_F(ModelFile, with_tensors_of_a_wrong_type_or_shape_is_refused) {
    GgufBuilder model = whole_model();
    model.find_tensor("blk.0.attn_k.weight").type = 9999;
    expect_rejected(model, {"blk.0.attn_k.weight", "9999"});
    model = whole_model();
    model.find_tensor("output_norm.weight").type = 8;  // Q8_0, which norms never are
    model.find_tensor("output_norm.weight").data.resize(64 / 32 * 34);
    expect_rejected(model, {"output_norm.weight"});
    model = whole_model();
    model.find_tensor("blk.0.attn_k.weight").type = 26;  // I32, which weights never are
    expect_rejected(model, {"blk.0.attn_k.weight"});
    model = whole_model();
    model.find_tensor("blk.1.ffn_down.weight").shape = {64, 32};  // transposed
    expect_rejected(model, {"blk.1.ffn_down.weight"});
    model = whole_model();
    model.find_tensor("token_embd.weight").dims = 9;
    expect_rejected(model, {"token_embd.weight"});
}

TEST_F(ModelFile, that_lacks_any_tensor_is_refused_by_its_name) {
    const GgufBuilder model = whole_model();
    for (const auto& tensor : model.tensors) {
        GgufBuilder without = model;
        without.remove_tensor(tensor.name);
        const std::string file = write("model.gguf", without.build());
        expect_refusal(run_of(file), 4, {file, tensor.name});
    }
}

TEST_F(ModelFile, with_metadata_of_a_wrong_type_or_none_is_refused) {
    GgufBuilder model = whole_model();
    model.remove("llama.block_count").string("llama.block_count", "two");
    expect_rejected(model, {"llama.block_count"});
    model = whole_model();
    model.remove("llama.attention.head_count");
    expect_rejected(model, {"llama.attention.head_count"});
    model = whole_model();
    model.remove("general.architecture").string("general.architecture", "mamba");
    expect_rejected(model, {"mamba"});
}

TEST_F(ModelFile, without_a_usable_tokenizer_is_refused) {
    GgufBuilder model = whole_model();
    model.remove("tokenizer.ggml.tokens");
    const std::string file = write("model.gguf", model.build());
    expect_refusal(run_of(file), 4, {file, "tokenizer.ggml.tokens"});
}

TEST_F(ModelFile, that_is_none_is_refused) {
    const auto refused = [&](const std::string& file, const std::string& reason) {
        expect_refusal(run_of(file), 4, {file, reason});
        expect_refusal({"model", "info", file}, 4, {file, reason});
    };
    refused(path("absent.gguf"), "cannot open the model file: No such file or directory");
    refused(write("empty.gguf", ""), "the file is empty");
    refused(write("text.gguf", "Once upon a time there was a text that was no model."), "GGUF");
    refused("/dev/null", "not a regular file");
    refused("/", "not a regular file");
}

}  // namespace kvplane::test
