/* SPDX-License-Identifier: GPL-2.0-or-later */
/* For getresuid(2). */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "conf.h"
#include "privs.h"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "privileges.h"

#define NET_ADMIN (UINT64_C(1) << CAP_NET_ADMIN)

struct capabilities {
	uint64_t effective;
	uint64_t permitted;
};

/* By the system calls: libcap would be one more library for two of them. */
static bool read_capabilities(struct capabilities *capabilities)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct words[2];

	memset(words, 0, sizeof(words));
	memset(capabilities, 0, sizeof(*capabilities));
	if (syscall(SYS_capget, &header, words) < 0)
		return false;
	capabilities->effective = words[0].effective | (uint64_t)words[1].effective << 32;
	capabilities->permitted = words[0].permitted | (uint64_t)words[1].permitted << 32;
	return true;
}

static bool write_capabilities(struct capabilities capabilities)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct words[2];

	memset(words, 0, sizeof(words));
	words[0].effective = (uint32_t)capabilities.effective;
	words[1].effective = (uint32_t)(capabilities.effective >> 32);
	words[0].permitted = (uint32_t)capabilities.permitted;
	words[1].permitted = (uint32_t)(capabilities.permitted >> 32);
	return syscall(SYS_capset, &header, words) == 0;
}

void fairwind_keep_capabilities(void)
{
	(void)prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0);
}

bool fairwind_reduce_capabilities(bool has_succeeded)
{
	struct capabilities capabilities;
	uid_t real, effective, saved;
	bool is_there;

	(void)prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0);
	if (!read_capabilities(&capabilities))
		return false;
	is_there = (capabilities.permitted & NET_ADMIN) != 0;
	/* A process that can still be root has not changed its user; mod_cap leaves what it has left. */
	if (!has_succeeded || !is_there || getresuid(&real, &effective, &saved) < 0 || real == 0 ||
	    effective == 0 || saved == 0)
		return is_there;
	capabilities.effective = 0;
	capabilities.permitted = NET_ADMIN;
	if (write_capabilities(capabilities))
		return true;
	/* Rather none at all than all of them. */
	capabilities.permitted = 0;
	if (!write_capabilities(capabilities))
		pr_session_disconnect(NULL, PR_SESS_DISCONNECT_BY_APPLICATION,
				      "capabilities cannot be given up");
	return false;
}

static int set_control(int fd, const char *name)
{
	return setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, strlen(name)) < 0 ? errno : 0;
}

static int set_with_net_admin(int fd, const char *name, struct capabilities before)
{
	struct capabilities raised = before;
	int error;

	raised.effective |= NET_ADMIN;
	pr_signals_block();
	error = write_capabilities(raised) ? set_control(fd, name) : EPERM;
	(void)write_capabilities(before);
	pr_signals_unblock();
	return error;
}

int fairwind_set_control(int fd, const char *name)
{
	struct capabilities capabilities;
	int error = set_control(fd, name);

	/* Without privileges the kernel does not load a module either. */
	if (error != EPERM && error != ENOENT)
		return error;
	if (read_capabilities(&capabilities) && capabilities.permitted & NET_ADMIN)
		return set_with_net_admin(fd, name, capabilities);
	if (session.disable_id_switching)
		return error;
	pr_signals_block();
	PRIVS_ROOT
	error = set_control(fd, name);
	PRIVS_RELINQUISH
	pr_signals_unblock();
	return error;
}
