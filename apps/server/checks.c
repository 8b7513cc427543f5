#include "apps/server/checks.h"
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* The name of "name:port" or "[address]:port"; false if it is malformed. */
static bool host_name(const char *host, char *out, size_t capacity) {
    const char *begin = host, *end = strchr(host, ':');
    if (host[0] == '[') {
        begin = host + 1;
        end = strchr(host, ']');
        if (!end || (end[1] && end[1] != ':')) return false;
    }
    const size_t bytes = end ? (size_t)(end - begin) : strlen(begin);
    if (bytes == 0 || bytes >= capacity) return false;
    memcpy(out, begin, bytes);
    out[bytes] = '\0';
    return true;
}

static bool is_address(const char *name) {
    unsigned char address[16];
    return inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1;
}

static bool ends_with(const char *text, const char *end) {
    const size_t length = strlen(text), bytes = strlen(end);
    return length > bytes && strcasecmp(text + length - bytes, end) == 0;
}

bool server_host_is_safe(const char *host, const char *own) {
    char name[256];
    if (!host || !host_name(host, name, sizeof name)) return false;
    return is_address(name) || strcasecmp(name, "localhost") == 0 ||
           ends_with(name, ".localhost") || (own && strcasecmp(name, own) == 0);
}

bool server_origin_is_host(const char *origin, const char *host) {
    const char *name = strstr(origin, "://");
    return name && host && strcasecmp(name + 3, host) == 0;
}

bool server_origin_is_listed(const char *origin, const char *const *list, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i], "*") == 0 || strcasecmp(list[i], origin) == 0) return true;
    return false;
}

static bool same(const char *given, size_t length, const char *key) {
    const size_t bytes = strlen(key);
    unsigned difference = length != bytes;
    for (size_t i = 0; i < bytes; i++)
        difference |= (unsigned char)key[i] ^ (unsigned char)(length ? given[i % length] : 0);
    return difference == 0;
}

int server_key_find(const char *given, const char *const *keys, size_t count) {
    const size_t length = given ? strlen(given) : 0;
    int found = -1;
    for (size_t i = 0; i < count; i++)
        if (same(given, length, keys[i])) found = (int)i;
    return given ? found : -1;
}

const char *server_bearer_key(const char *header) {
    if (!header || strncasecmp(header, "Bearer ", 7) != 0) return NULL;
    header += 7;
    while (*header == ' ') header++;
    return header;
}

bool server_address_is_loopback(const char *host) {
    return strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0 ||
           strcasecmp(host, "localhost") == 0;
}

bool server_length_read(const char *text, uint64_t *out) {
    uint64_t value = 0;
    if (!text[0] || strlen(text) > 18) return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9') return false;
        value = value * 10 + (uint64_t)(*text - '0');
    }
    *out = value;
    return true;
}

bool server_header_name_is_sound(const char *name) {
    static const char letters[] = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    static const char *const framing[] = {"Content-Length", "Transfer-Encoding", "Host"};
    if (!name[0] || name[strspn(name, letters)]) return false;
    for (size_t i = 0; i < sizeof framing / sizeof framing[0]; i++) {
        const size_t bytes = strlen(framing[i]);
        if (strncasecmp(name, framing[i], bytes) == 0 && name[bytes]) return false;
    }
    return true;
}
