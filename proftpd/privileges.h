/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The one privilege that is of use: CAP_NET_ADMIN, for a congestion control that
 * net.ipv4.tcp_allowed_congestion_control does not name.
 */
#ifndef FAIRWIND_PRIVILEGES_H
#define FAIRWIND_PRIVILEGES_H

#include <stdbool.h>

/* Before a login: keeps capabilities when the process stops being root. */
void fairwind_keep_capabilities(void);

/* After a login: gives up all but CAP_NET_ADMIN, or, if it failed, lets the next change of user drop all
 * again. Returns false if CAP_NET_ADMIN is not there to be kept.
 */
bool fairwind_reduce_capabilities(bool has_succeeded);

/* Sets the congestion control of a socket; returns 0 or an errno. */
int fairwind_set_control(int fd, const char *name);

#endif
