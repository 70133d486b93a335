/* A program in plain C11 that knows libkvplane by its header alone: embed MODEL CASE. */
#include <kvplane/kvplane.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                                       \
    do {                                                                                                       \
        if (!(condition)) {                                                                                    \
            fprintf(stderr, "line %d: %s is false; last error: %s\n", __LINE__, #condition, kvp_last_error()); \
            exit(1);                                                                                           \
        }                                                                                                      \
    } while (0)

static kvp_engine_options options_for(const char* model, const char* const* overrides, uint64_t n_overrides) {
    kvp_engine_options options = {KVP_HEAD(kvp_engine_options), NULL, model, overrides, n_overrides};
    return options;
}

static kvp_engine* open_exact(const char* model) {
    static const char* const overrides[] = {"kv.plugin=dense", "device.exact_f32=true"};
    const kvp_engine_options options = options_for(model, overrides, 2);
    kvp_engine* engine = NULL;
    CHECK(kvp_engine_open(&options, &engine) == KVP_OK);
    CHECK(engine != NULL);
    CHECK(strcmp(kvp_last_error(), "") == 0);
    return engine;
}

static kvp_request request_for(const char* prompt, uint64_t max_tokens) {
    kvp_request request = {KVP_HEAD(kvp_request), prompt, max_tokens, 0, 0};
    return request;
}

typedef struct Text {
    char bytes[4096];
    size_t length;
    int pieces;
    int most_pieces; /* cancels after so many; 0: never */
} Text;

static int32_t collect(void* context, kvp_str piece) {
    Text* const text = context;
    CHECK(piece.n_bytes > 0);
    CHECK(text->length + piece.n_bytes < sizeof(text->bytes));
    memcpy(text->bytes + text->length, piece.data, piece.n_bytes);
    text->length += piece.n_bytes;
    text->bytes[text->length] = '\0';
    return ++text->pieces == text->most_pieces;
}

/* Greedy, by tests/reference/llama_torch.py from tiny-gqa-f32.gguf; the first byte is no text. */
static const char continuation[] = "\xef\xbf\xbdingSSSSSSSSSSSSSS";

static void generates(const char* model) {
    kvp_engine* const engine = open_exact(model);
    const kvp_request request = request_for("The cat sat", 16);
    for (int repeat = 0; repeat < 2; ++repeat) {
        Text text = {0};
        kvp_result result = {KVP_HEAD(kvp_result), 0, 0, 0, 0, 0, 0};
        CHECK(kvp_engine_generate(engine, &request, collect, &text, &result) == KVP_OK);
        CHECK(strcmp(text.bytes, continuation) == 0);
        CHECK(text.pieces == 16 || text.pieces == 15); /* the start of a character may wait for its rest */
        CHECK(result.prompt_tokens == 11);
        CHECK(result.generated_tokens == 16);
        CHECK(result.finish_reason == KVP_FINISH_LENGTH);
        CHECK(result.prefill_seconds > 0 && result.decode_seconds > 0);
    }
    CHECK(kvp_engine_generate(engine, &request, NULL, NULL, NULL) == KVP_OK);
    kvp_engine_close(engine);
    kvp_engine_close(NULL);
}

static void answers_a_chat(const char* model) {
    kvp_engine* const engine = open_exact(model);
    kvp_request request = request_for("Hi", 4);
    request.chat = 1;
    kvp_result result = {KVP_HEAD(kvp_result), 0, 0, 0, 0, 0, 0};
    CHECK(kvp_engine_generate(engine, &request, NULL, NULL, &result) == KVP_OK);
    CHECK(result.prompt_tokens > 10); /* the template's own */
    kvp_engine_close(engine);
}

static void cancels(const char* model) {
    kvp_engine* const engine = open_exact(model);
    const kvp_request request = request_for("The cat sat", 0); /* 0: as much as the context holds */
    Text text = {{0}, 0, 0, 5};
    kvp_result result = {KVP_HEAD(kvp_result), 0, 0, 0, 0, 0, 0};
    CHECK(kvp_engine_generate(engine, &request, collect, &text, &result) == KVP_OK);
    CHECK(result.finish_reason == KVP_FINISH_CANCELLED);
    CHECK(text.pieces == 5);
    CHECK(strncmp(text.bytes, continuation, text.length) == 0);
    CHECK(result.generated_tokens >= 5 && result.generated_tokens <= 6);
    /* The engine goes on with the next one. */
    const kvp_request next = request_for("The cat sat", 3);
    CHECK(kvp_engine_generate(engine, &next, NULL, NULL, &result) == KVP_OK);
    CHECK(result.finish_reason == KVP_FINISH_LENGTH);
    kvp_engine_close(engine);
}

static void expect_no_engine(const kvp_engine_options* options, kvp_status status, const char* part) {
    kvp_engine* engine = (kvp_engine*)&engine; /* must not stay */
    CHECK(kvp_engine_open(options, &engine) == status);
    CHECK(engine == NULL);
    CHECK(strstr(kvp_last_error(), part) != NULL);
}

static void explains_why_no_engine_opens(const char* model) {
    kvp_engine_options options = options_for("no/such/model.gguf", NULL, 0);
    expect_no_engine(&options, KVP_ERROR_CORRUPT, "no/such/model.gguf: cannot open the model file");
    options = options_for(NULL, NULL, 0);
    expect_no_engine(&options, KVP_ERROR_INVALID, "no model");
    const char* const unknown[] = {"kv.plugn=dense"};
    options = options_for(model, unknown, 1);
    expect_no_engine(&options, KVP_ERROR_INVALID, "unknown key kv.plugn");
    CHECK(strstr(kvp_last_error(), "nearest: kv.plugin") != NULL);
    const char* const absent[] = {"kv.plugin=absent"};
    options = options_for(model, absent, 1);
    expect_no_engine(&options, KVP_ERROR_VERSION, "no kv plugin of this id");
    const char* const small[] = {"tiers.device.kv_bytes=1KiB"};
    options = options_for(model, small, 1);
    expect_no_engine(&options, KVP_ERROR_MEMORY, "tiers.device.kv_bytes");
    options.pipeline = "no/such/pipeline.toml";
    expect_no_engine(&options, KVP_ERROR_INVALID, "no/such/pipeline.toml");
    options = options_for(model, NULL, 2);
    expect_no_engine(&options, KVP_ERROR_INVALID, "n_overrides");
    const char* const null[] = {NULL};
    options = options_for(model, null, 1);
    expect_no_engine(&options, KVP_ERROR_INVALID, "NULL");
    options = options_for(model, NULL, 0);
    options.head.struct_size = 0;
    expect_no_engine(&options, KVP_ERROR_INVALID, "KVP_HEAD");
    expect_no_engine(NULL, KVP_ERROR_INVALID, "options");
    CHECK(kvp_engine_open(&options, NULL) == KVP_ERROR_INVALID);
}

static void explains_why_nothing_is_generated(const char* model) {
    kvp_engine* const engine = open_exact(model);
    kvp_request request = request_for("", 4);
    CHECK(kvp_engine_generate(engine, &request, NULL, NULL, NULL) == KVP_ERROR_INVALID);
    CHECK(strstr(kvp_last_error(), "the prompt is empty") != NULL);
    request.prompt = NULL;
    CHECK(kvp_engine_generate(engine, &request, NULL, NULL, NULL) == KVP_ERROR_INVALID);
    CHECK(strstr(kvp_last_error(), "prompt") != NULL);
    CHECK(kvp_engine_generate(engine, NULL, NULL, NULL, NULL) == KVP_ERROR_INVALID);
    CHECK(kvp_engine_generate(NULL, &request, NULL, NULL, NULL) == KVP_ERROR_INVALID);
    char longer[600];
    memset(longer, '1', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    request.prompt = longer;
    CHECK(kvp_engine_generate(engine, &request, NULL, NULL, NULL) == KVP_ERROR_INVALID);
    CHECK(strstr(kvp_last_error(), "the prompt has 599 tokens, the context holds 512") != NULL);
    request.prompt = "The cat sat"; /* still good */
    CHECK(kvp_engine_generate(engine, &request, NULL, NULL, NULL) == KVP_OK);
    CHECK(strcmp(kvp_last_error(), "") == 0);
    kvp_engine_close(engine);
}

/* A program built against an older header, whose structs ended earlier, gets no more than it has room for. */
static void respects_the_caller_s_sizes(const char* model) {
    kvp_engine* const engine = open_exact(model);
    const kvp_request request = request_for("The cat sat", 4);
    kvp_result result = {KVP_HEAD(kvp_result), 0, 0, 0, 0, 0, 0};
    result.head.struct_size = (uint32_t)offsetof(kvp_result, generated_tokens);
    result.generated_tokens = 12345;
    CHECK(kvp_engine_generate(engine, &request, NULL, NULL, &result) == KVP_OK);
    CHECK(result.prompt_tokens == 11);
    CHECK(result.generated_tokens == 12345);
    kvp_engine_close(engine);
}

static void runs_two_engines(const char* model) {
    kvp_engine* const first = open_exact(model);
    kvp_engine* const second = open_exact(model);
    const kvp_request request = request_for("The cat sat", 16);
    Text one = {0}, two = {0};
    CHECK(kvp_engine_generate(first, &request, collect, &one, NULL) == KVP_OK);
    kvp_engine_close(first);
    CHECK(kvp_engine_generate(second, &request, collect, &two, NULL) == KVP_OK);
    kvp_engine_close(second);
    CHECK(strcmp(one.bytes, continuation) == 0 && strcmp(two.bytes, continuation) == 0);
}

int main(int argc, char** argv) {
    static const struct {
        const char* name;
        void (*run)(const char* model);
    } cases[] = {{"generates", generates},
                 {"answers_a_chat", answers_a_chat},
                 {"cancels", cancels},
                 {"explains_why_no_engine_opens", explains_why_no_engine_opens},
                 {"explains_why_nothing_is_generated", explains_why_nothing_is_generated},
                 {"respects_the_caller_s_sizes", respects_the_caller_s_sizes},
                 {"runs_two_engines", runs_two_engines}};
    CHECK(argc == 3);
    CHECK(strcmp(kvp_version(), KVPLANE_VERSION) == 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
        if (strcmp(cases[i].name, argv[2]) != 0) continue;
        cases[i].run(argv[1]);
        return 0;
    }
    fprintf(stderr, "no case %s\n", argv[2]);
    return 1;
}
