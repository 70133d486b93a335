// kvplane eval make-retrieval: task files that ask for one fact of a long text, at every depth. The same seed, text and
// tokenizer give the same files.
#include "eval/retrieval.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>

#include "base/error.h"
#include "common.h"
#include "model/model.h"
#include "tokenizer/tokenizer.h"

namespace kvplane::tool {

namespace {

constexpr size_t n_choices = 4;

constexpr std::array first_words = {"amber", "brave", "calm",   "dusty", "early", "faint", "grand", "happy",
                                    "icy",   "jolly", "kind",   "late",  "misty", "noble", "old",   "plain",
                                    "quiet", "rapid", "silver", "tall",  "upper", "vivid", "warm",  "young",
                                    "blue",  "coral", "deep",   "east",  "fresh", "green"};
constexpr std::array second_words = {"river",  "falcon", "harbor", "lantern", "meadow", "castle",  "garden", "engine",
                                     "mirror", "valley", "anchor", "bridge",  "candle", "desert",  "forest", "island",
                                     "jacket", "kettle", "ladder", "market",  "needle", "orchard", "pepper", "quarry",
                                     "ribbon", "saddle", "temple", "tunnel",  "window", "yard"};

struct RetrievalOptions {
    std::string model, text, output;
    std::vector<int64_t> tokens = {1000, 2000, 4000, 8000};
    int64_t depths = 50;
    int64_t seed = 1;
};

// Its own arithmetic on the generator, so that every standard library gives the same.
class Dice {
public:
    explicit Dice(uint64_t seed) : generator_(seed) {}
    size_t below(size_t n) { return static_cast<size_t>(generator_() % n); }
    std::string code() { return std::to_string(10000 + below(90000)); }

private:
    std::mt19937_64 generator_;
};

std::string name_of(size_t number) {
    return std::string(first_words[number % first_words.size()]) + " " +
           second_words[number / first_words.size() % second_words.size()];
}

// A line of a task file: the right answer among wrong ones, at a place of its own.
std::string item_line(const std::string& context, const std::string& right, std::vector<std::string> wrong, Dice& dice,
                      int64_t depth) {
    const size_t gold = dice.below(n_choices);
    wrong.insert(wrong.begin() + static_cast<std::ptrdiff_t>(gold), right);
    nlohmann::ordered_json item = {
        {"id", depth}, {"context", context}, {"choices", nlohmann::ordered_json::array()}, {"gold", gold}};
    for (const std::string& answer : wrong) item["choices"].push_back(" " + answer);
    return item.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::vector<std::string> other_codes(const std::string& right, Dice& dice) {
    std::vector<std::string> codes;
    while (codes.size() + 1 < n_choices) {
        const std::string code = dice.code();
        if (code != right && std::find(codes.begin(), codes.end(), code) == codes.end()) codes.push_back(code);
    }
    return codes;
}

// Where a word begins, at `byte` or before.
size_t word_begin(const std::string& text, size_t byte) {
    const size_t space = text.rfind(' ', byte);
    return space == std::string::npos ? 0 : space;
}

// "The secret code of NAME is NNNNN." somewhere in a stretch of the text.
std::string needle_task(const RetrievalOptions& options, const std::vector<int32_t>& ids, const Tokenizer& tokenizer,
                        int64_t tokens, Dice& dice) {
    std::string lines;
    for (int64_t depth = 0; depth < options.depths; ++depth) {
        const std::string name = name_of(dice.below(first_words.size() * second_words.size())), code = dice.code();
        const std::string sentence = " The secret code of " + name + " is " + code + ".";
        const std::string question =
            "\nQuestion: What is the secret code of " + name + "?\nAnswer: The secret code of " + name + " is";
        const auto own = static_cast<int64_t>(tokenizer.encode(sentence + question, false).size());
        const auto filler = static_cast<size_t>(std::max<int64_t>(1, tokens - own));
        if (filler > ids.size()) {
            throw Error(ErrorKind::usage, options.text + ": has " + std::to_string(ids.size()) +
                                              " tokens, fewer than " + std::to_string(filler) +
                                              " to fill a text with; lower --tokens");
        }
        const size_t begin = dice.below(ids.size() - filler + 1);
        const std::string text = tokenizer.decode(std::span(ids).subspan(begin, filler));
        const double share =
            options.depths > 1 ? static_cast<double>(depth) / static_cast<double>(options.depths - 1) : 0;
        const size_t place = word_begin(text, static_cast<size_t>(share * static_cast<double>(text.size())));
        const std::string context = text.substr(0, place) + sentence + text.substr(place) + question;
        lines += item_line(context, code, other_codes(code, dice), dice, depth);
    }
    return lines;
}

std::string question_of(const std::string& name) {
    return "\nWhat is the code of " + name + "?\n" + name + ":";
}

// "NAME: NNNNN" line by line; the wrong answers are other names' codes.
std::string keys_task(const RetrievalOptions& options, const Tokenizer& tokenizer, int64_t tokens, Dice& dice) {
    std::string lines;
    for (int64_t depth = 0; depth < options.depths; ++depth) {
        std::vector<size_t> names(first_words.size() * second_words.size());
        for (size_t i = 0; i < names.size(); ++i) names[i] = i;
        for (size_t i = names.size() - 1; i > 0; --i) std::swap(names[i], names[dice.below(i + 1)]);
        std::vector<std::string> codes;
        std::string list = "Names and their codes:\n";
        auto left =
            tokens - static_cast<int64_t>(tokenizer.encode(list + question_of(name_of(names[0])), false).size());
        while (codes.size() < names.size() && (left > 0 || codes.size() < n_choices)) {
            codes.push_back(dice.code());
            const std::string line = name_of(names[codes.size() - 1]) + ": " + codes.back() + "\n";
            left -= static_cast<int64_t>(tokenizer.encode(line, false).size());
            list += line;
        }
        const double share =
            options.depths > 1 ? static_cast<double>(depth) / static_cast<double>(options.depths - 1) : 0;
        const auto asked = static_cast<size_t>(share * static_cast<double>(codes.size() - 1));
        std::vector<std::string> wrong;  // of the names that follow, in a circle
        for (size_t i = 1; i < codes.size() && wrong.size() + 1 < n_choices; ++i) {
            const std::string& code = codes[(asked + i * 7) % codes.size()];
            const bool used = code == codes[asked] || std::find(wrong.begin(), wrong.end(), code) != wrong.end();
            if (!used) wrong.push_back(code);
        }
        for (const std::string& code : other_codes(codes[asked], dice)) {
            if (wrong.size() + 1 < n_choices) wrong.push_back(code);
        }
        const std::string name = name_of(names[asked]);
        lines += item_line(list + question_of(name), codes[asked], wrong, dice, depth);
    }
    return lines;
}

int make_retrieval(const RetrievalOptions& options) {
    const auto model = Model::open(options.model);
    const auto tokenizer = Tokenizer::from_gguf(model->file());
    const std::vector<int32_t> ids = tokenizer->encode(read_text_file(options.text), false);
    std::error_code failure;
    std::filesystem::create_directories(options.output, failure);
    for (int64_t tokens : options.tokens) {
        for (const bool needle : {true, false}) {
            Dice dice(static_cast<uint64_t>(options.seed) * 1000003 + static_cast<uint64_t>(tokens) * 2 +
                      (needle ? 0 : 1));
            const std::string lines = needle ? needle_task(options, ids, *tokenizer, tokens, dice)
                                             : keys_task(options, *tokenizer, tokens, dice);
            const std::string name = (needle ? "needle-" : "keys-") + std::to_string(tokens);
            const std::filesystem::path file = std::filesystem::path(options.output) / (name + ".jsonl");
            std::ofstream out(file, std::ios::binary | std::ios::trunc);
            out << lines;
            out.close();
            if (!out) throw Error(ErrorKind::runtime, file.string() + ": cannot be written; is the folder there?");
            std::cout << name << "\n";
        }
    }
    return 0;
}

}  // namespace

void add_eval_make_retrieval(CLI::App& eval, Action& action) {
    auto options = std::make_shared<RetrievalOptions>();
    CLI::App* command = eval.add_subcommand("make-retrieval", "Write tasks that ask for one fact of a long text");
    command->add_option("-m,--model", options->model, "model file (GGUF), for its tokenizer")->required();
    command->add_option("--text", options->text, "text to hide the facts in")->required();
    command->add_option("-o,--output", options->output, "folder to write to")->required();
    command->add_option("--tokens", options->tokens, "lengths of the texts; with commas")
        ->delimiter(',')
        ->take_all()
        ->check(CLI::Range(100, 1 << 20));
    command->add_option("--depths", options->depths, "places in the text, an item each")->check(CLI::Range(1, 10000));
    command->add_option("--seed", options->seed, "another one gives other texts, names and codes")
        ->check(CLI::Range(0, 1 << 30));
    command->callback([options, &action] { action = [options] { return make_retrieval(*options); }; });
}

}  // namespace kvplane::tool
