// kvplane model info, kvplane model tokenize.
#include <iomanip>
#include <iostream>
#include <map>

#include "command.h"
#include "common.h"
#include "model/model.h"
#include "observe/terminal.h"
#include "tokenizer/tokenizer.h"

namespace kvplane::tool {

namespace {

struct ModelCommandOptions {
    std::string path;
    std::string text;
    bool special = false;
    bool json = false;
};

int info(const ModelCommandOptions& options) {
    const auto model = Model::open(options.path);
    const ModelShape& shape = model->shape();
    std::map<std::string, uint64_t> types;
    uint64_t bytes = 0, parameters = 0;
    for (const TensorView& tensor : model->tensors()) {
        ++types[std::string(tensor_type_info(tensor.type).name)];
        bytes += tensor.bytes;
        parameters += tensor.elements();
    }
    const uint64_t kv_bytes = uint64_t{2} * shape.layers * shape.kv_heads * shape.head_size * 2;
    nlohmann::ordered_json report = {
        {"path", options.path},
        {"architecture", shape.architecture},
        {"name", shape.name},
        {"parameters", parameters},
        {"layers", shape.layers},
        {"width", shape.width},
        {"feed_forward_width", shape.feed_forward_width},
        {"heads", shape.heads},
        {"kv_heads", shape.kv_heads},
        {"head_size", shape.head_size},
        {"vocabulary", shape.vocabulary},
        {"context_length", shape.context_length},
        {"rope",
         {{"base", shape.rope.base}, {"dimensions", shape.rope.dimensions}, {"interleaved", shape.rope.interleaved}}},
        {"tied_output", shape.tied_output},
        {"tensors", model->tensors().size()},
        {"tensor_types", types},
        {"tensor_bytes", bytes},
        {"kv_bytes_per_token", kv_bytes},
        {"warnings", model->warnings()}};
    if (options.json) {
        print_json(std::move(report));
        return 0;
    }
    for (const auto& [key, value] : report.items()) {
        std::cout << std::left << std::setw(20) << key
                  << (value.is_string() ? printable(value.get<std::string>()) : value.dump()) << "\n";
    }
    return 0;
}

int tokenize(const ModelCommandOptions& options) {
    const auto model = Model::open(options.path);
    const std::vector<int32_t> ids =
        Tokenizer::from_gguf(model->file())->encode(read_text_file(options.text), options.special);
    if (options.json) {
        print_json({{"tokens", ids}});
        return 0;
    }
    for (int32_t id : ids) std::cout << id << "\n";
    return 0;
}

}  // namespace

void add_model(CLI::App& app, Action& action) {
    CLI::App* model = app.add_subcommand("model", "Look at a model file");
    model->require_subcommand(1);
    auto options = std::make_shared<ModelCommandOptions>();
    CLI::App* info_command = model->add_subcommand("info", "Shape, tensors, memory a token");
    CLI::App* tokenize_command = model->add_subcommand("tokenize", "Token ids of a text file");
    for (CLI::App* command : {info_command, tokenize_command}) {
        command->add_option("model", options->path, "model file (GGUF)")->required();
        command->add_flag("--json", options->json, "one JSON object on standard output");
    }
    tokenize_command->add_option("--file", options->text, "text file")->required();
    tokenize_command->add_flag("--special", options->special, "the text of a special token is that token");
    info_command->callback([options, &action] { action = [options] { return info(*options); }; });
    tokenize_command->callback([options, &action] { action = [options] { return tokenize(*options); }; });
}

}  // namespace kvplane::tool
