/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the directives leave in the configuration, as the first parameter of each:
 *
 * FairwindAdvisor          struct fairwind_advisor, with name and address only
 * FairwindEngine           int, a Boolean
 * FairwindExceptNetworks,
 * FairwindOwnNetworks      array_header of pr_netacl_t *
 * FairwindInterval         long, seconds: the shortest; the longest is the second parameter
 * FairwindLog              char *
 * FairwindMinimumBytes     off_t
 * FairwindMode             int, an enum fairwind_way
 * FairwindOptions          unsigned long
 * FairwindTimeout          int, milliseconds
 * FairwindTokenFile        char *, the token
 */
#ifndef FAIRWIND_DIRECTIVES_H
#define FAIRWIND_DIRECTIVES_H

#include "conf.h"

#include "advisor.h"

#define FAIRWIND_LONGEST_INTERVAL_S 86400
/* Of FairwindOptions. */
#define FAIRWIND_KEEP_NET_ADMIN 1UL

enum fairwind_way {
	/* Asks, and follows the answer. */
	FAIRWIND_WAY_ADVISED,
	/* Asks, and logs what it would change. */
	FAIRWIND_WAY_OBSERVE,
	/* Leaves everything to the kernel. */
	FAIRWIND_WAY_STANDARD,
	/* Without congestion control to own networks, always. */
	FAIRWIND_WAY_NOCC,
};

extern conftable fairwind_directives[];

/* Takes `http://HOST:PORT` or `HOST:PORT`; NULL, or what is wrong with it. */
const char *fairwind_set_address(pool *p, struct fairwind_advisor *advisor, const char *text);

#endif
