/* Embedding API: runs a model from another program, through libkvplane. Draft, as the rest of this folder.
 *
 *   kvp_engine* engine;
 *   kvp_engine_options options = {KVP_HEAD(kvp_engine_options)};
 *   options.pipeline = "configs/infinigen.toml"; options.model = "model.gguf";
 *   if (kvp_engine_open(&options, &engine) != KVP_OK) puts(kvp_last_error());
 *   ... kvp_engine_generate(engine, &request, on_text, NULL, &result); kvp_engine_close(engine);
 *
 * One engine is used by one thread at a time; several engines by several. C strings here are NUL-terminated.
 * Plugins are looked for in plugins.path, in KVPLANE_PLUGIN_PATH and in the folder kvplane/ beside the library.
 * A failure is KVP_ERROR_INVALID for an argument, the pipeline or a request, KVP_ERROR_CORRUPT for the model file,
 * KVP_ERROR_VERSION for a plugin that cannot be used, KVP_ERROR_MEMORY for what does not fit, KVP_ERROR_INTERNAL for
 * what went wrong while running; kvp_last_error() tells what and what to do. */
#ifndef KVPLANE_KVPLANE_H_
#define KVPLANE_KVPLANE_H_

#include "base.h"

typedef struct kvp_engine kvp_engine;

typedef struct kvp_engine_options {
    kvp_head head;
    const char* pipeline;         /* path of the TOML file; NULL: defaults */
    const char* model;            /* path of the model file; NULL: the pipeline's model.path */
    const char* const* overrides; /* "KEY=VALUE" each */
    uint64_t n_overrides;
} kvp_engine_options;

typedef struct kvp_request {
    kvp_head head;
    const char* prompt;
    uint64_t max_tokens; /* most new tokens; 0: as many as the context holds */
    uint32_t chat;       /* 1: the prompt is a user's message, put into the model's chat template; 0: raw text */
    uint32_t reserved0;
} kvp_request;

enum { KVP_FINISH_STOP = 1, KVP_FINISH_LENGTH = 2, KVP_FINISH_CANCELLED = 3 };

typedef struct kvp_result {
    kvp_head head;
    uint64_t prompt_tokens;
    uint64_t generated_tokens;
    double prefill_seconds;
    double decode_seconds;
    uint32_t finish_reason; /* KVP_FINISH_* */
    uint32_t reserved0;
} kvp_result;

/* Gets text as it comes, whole UTF-8 characters. Non-zero cancels.
 * thread: the caller's of kvp_engine_generate
 * blocks: may
 * owns: text borrowed
 * since: 1.0 */
typedef int32_t (*kvp_text_fn)(void* context, kvp_str text);

/* Opens plugins and model as the pipeline says.
 * thread: any
 * blocks: yes
 * owns: the engine moves to the caller
 * since: 1.0 */
KVP_EXPORT kvp_status kvp_engine_open(const kvp_engine_options* options, kvp_engine** engine);

/* Ends it; NULL is allowed.
 * thread: serial: engine
 * blocks: yes
 * owns: takes the engine
 * since: 1.0 */
KVP_EXPORT void kvp_engine_close(kvp_engine* engine);

/* Answers one prompt.
 * thread: serial: engine
 * blocks: yes
 * owns: all borrowed; on_text may be NULL
 * since: 1.0 */
KVP_EXPORT kvp_status kvp_engine_generate(kvp_engine* engine, const kvp_request* request, kvp_text_fn on_text,
                                          void* context, kvp_result* result);

/* What went wrong last on this thread, for people; never NULL.
 * thread: any
 * blocks: no
 * owns: valid until the thread's next call
 * since: 1.0 */
KVP_EXPORT const char* kvp_last_error(void);

/* Version of the library, "0.1.0".
 * thread: any
 * blocks: no
 * owns: constant
 * since: 1.0 */
KVP_EXPORT const char* kvp_version(void);

#endif /* KVPLANE_KVPLANE_H_ */
