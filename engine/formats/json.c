#include "engine/formats/json.h"
#include "base/memory.h"
#include <stdlib.h>

sl_status sl_json_refuse(const char *what, size_t bytes, const sl_json_problem *problem,
                         sl_error *err) {
    if (problem->no_memory) return sl_no_memory(err, what, bytes);
    return sl_fail(err, SL_FORMAT, "%s: not valid JSON at byte %zu: %s", what, problem->position,
                   problem->text);
}

sl_status sl_json_load(const char *what, const char *text, size_t bytes, json_t **out,
                       sl_error *err) {
    sl_json_problem problem;
    json_t *root = sl_json_parse(text, bytes, SL_JSON_UNIQUE_KEYS, &problem);
    if (!root) return sl_json_refuse(what, bytes, &problem, err);
    if (!json_is_object(root)) {
        json_decref(root);
        return sl_fail(err, SL_FORMAT, "%s: the JSON is not an object", what);
    }
    *out = root;
    return SL_OK;
}

char *sl_json_dump(const json_t *value, size_t flags) {
    const size_t bytes = json_dumpb(value, NULL, 0, flags);
    char *text = bytes ? malloc(bytes + 1) : NULL;
    if (!text) return NULL;
    if (json_dumpb(value, text, bytes, flags) != bytes) {
        free(text);
        return NULL;
    }
    text[bytes] = '\0';
    return text;
}

void sl_json_append(json_t **array, json_t *value) {
    if (json_array_append_new(*array, value) == 0) return;
    json_decref(*array);
    *array = NULL;
}

void sl_json_set(json_t **object, const char *key, json_t *value) {
    if (json_object_set_new(*object, key, value) == 0) return;
    json_decref(*object);
    *object = NULL;
}

sl_status sl_json_dims(const char *what, const json_t *array, sl_dims *out, sl_error *err) {
    const size_t rank = json_array_size(array);
    if (!json_is_array(array)) return sl_fail(err, SL_FORMAT, "%s: shape is not an array", what);
    if (rank > SL_MAX_RANK)
        return sl_fail(err, SL_FORMAT, "%s: rank %zu, at most %d are supported", what, rank,
                       SL_MAX_RANK);
    *out = (sl_dims){.rank = (uint32_t)rank};
    for (size_t i = 0; i < rank; i++) {
        const json_t *dim = json_array_get(array, i);
        if (!json_is_integer(dim))
            return sl_fail(err, SL_FORMAT, "%s: dim %zu of the shape is not an integer", what, i);
        out->dims[i] = json_integer_value(dim);
    }
    return SL_OK;
}

json_t *sl_json_of_dims(const sl_dims *dims) {
    json_t *array = json_array();
    for (uint32_t i = 0; i < dims->rank; i++) sl_json_append(&array, json_integer(dims->dims[i]));
    return array;
}

bool sl_json_name_fits(const char *name) {
    if (!*name) return false;
    for (; *name; name++)
        if ((unsigned char)*name < ' ' || *name == 127) return false;
    return true;
}
