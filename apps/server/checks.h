/* checks.h - Who may ask: hosts, origins, keys. */
#ifndef SL_APPS_SERVER_CHECKS_H
#define SL_APPS_SERVER_CHECKS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A name that no one else can point at this machine: an address, or localhost.  host: a Host
 * header, with or without a port. */
bool server_host_is_safe(const char *host, const char *own);
/* Whether an Origin header names the host of a Host header. */
bool server_origin_is_host(const char *origin, const char *host);
/* Whether a list has the origin; "*" in it stands for all. */
bool server_origin_is_listed(const char *origin, const char *const *list, size_t count);
/* The index of the key that is the same, in time that does not depend on where they differ; -1. */
int server_key_find(const char *given, const char *const *keys, size_t count);
/* The key of an Authorization header ("Bearer KEY"); NULL: none. */
const char *server_bearer_key(const char *header);
bool server_address_is_loopback(const char *host);
/* The value of a Content-Length header; false if it is not a plain number. */
bool server_length_read(const char *text, uint64_t *out);
/* Whether the name of a header is a token, as the standard has them, and does not only begin like
 * one of those that tell where a body ends: libmicrohttpd appends a line that is folded to the name
 * of the header before it. */
bool server_header_name_is_sound(const char *name);
#endif
