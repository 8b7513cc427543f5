#include "engine/formats/json.h"
#include "base/memory.h"

/* Parse errors quote the input, which may contain anything. */
static void make_printable(char *text) {
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 127) *text = ' ';
}

sl_status sl_json_load(const char *what, const char *text, size_t bytes, json_t **out,
                       sl_error *err) {
    json_error_t problem;
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &problem);
    if (!root && json_error_code(&problem) == json_error_out_of_memory)
        return sl_no_memory(err, what, bytes);
    if (!root) {
        make_printable(problem.text);
        return sl_fail(err, SL_FORMAT, "%s: not valid JSON at byte %d: %s", what, problem.position,
                       problem.text);
    }
    if (!json_is_object(root)) {
        json_decref(root);
        return sl_fail(err, SL_FORMAT, "%s: the JSON is not an object", what);
    }
    *out = root;
    return SL_OK;
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
    for (uint32_t i = 0; i < dims->rank; i++)
        if (json_array_append_new(array, json_integer(dims->dims[i])) != 0) {
            json_decref(array);
            return NULL;
        }
    return array;
}

bool sl_json_name_fits(const char *name) {
    if (!*name) return false;
    for (; *name; name++)
        if ((unsigned char)*name < ' ' || *name == 127) return false;
    return true;
}
