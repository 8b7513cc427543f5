/* page.h - Files of the page as the build has embedded them. */
#ifndef SL_APPS_SERVER_PAGE_H
#define SL_APPS_SERVER_PAGE_H
#include <stddef.h>

typedef struct {
    const char *name, *etag;
    const unsigned char *bytes;
    size_t count;
} server_page_file;
extern const server_page_file server_page_files[];
extern const size_t server_page_file_count;
#endif
