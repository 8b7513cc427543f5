/* request_fuzz.c - Input: a body, with a member "endpoint" that says for which.  What is decoded
 * keeps to the limits; what is refused says why, in one line, with a status of the client's fault.
 */
#include "apps/server/request.h"
#include "tests/support/mutate_json.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_refusal(const server_error *err) {
    if (err->status != 400 || err->message[0] == '\0') __builtin_trap();
    json_t *json = server_error_json(err, SERVER_OPENAI, "id");
    if (!json) __builtin_trap();
    json_decref(json);
}

static void check_request(const server_request *r) {
    if (r->n < 1 || r->n > SERVER_MOST_CHOICES || r->top_logprobs > SERVER_MOST_TOP ||
        json_array_size(r->stops) > SERVER_MOST_STOPS)
        __builtin_trap();
    if (!json_array_size(r->messages) == !json_array_size(r->prompts)) __builtin_trap();
    if (r->choice == SERVER_TOOLS_REQUIRED && !r->tools) __builtin_trap();
    size_t index;
    const json_t *message;
    json_array_foreach(r->messages, index, message) {
        if (!server_json_string(message, "role") || !server_json_string(message, "content"))
            __builtin_trap();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    server_error err = {0};
    server_request request;
    char *body = malloc(size + 1);
    if (!body) return 0;
    memcpy(body, data, size);
    json_t *json = server_json_parse(body, size, &err);
    free(body);
    if (!json) {
        check_refusal(&err);
        return 0;
    }
    const uint64_t endpoint = (uint64_t)json_integer_value(json_object_get(json, "endpoint"));
    const server_shape shape = endpoint % SERVER_SHAPE_COUNT;
    const bool counts = endpoint / SERVER_SHAPE_COUNT % 2;
    if (counts ? server_request_decode_count(shape, json, &request, &err)
               : server_request_decode(shape, json, &request, &err))
        check_request(&request);
    else
        check_refusal(&err);
    server_request_deinit(&request);
    return 0;
}
