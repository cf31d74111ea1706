/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The directives: what each takes, and what it leaves in the configuration for mod_fairwind.c. */
#include "directives.h"

#include <stdbool.h>

#define SHORTEST_TIMEOUT_MS 1
#define LONGEST_TIMEOUT_MS 5000

#define EVERYWHERE (CONF_ROOT | CONF_VIRTUAL | CONF_GLOBAL)

/* usage: FairwindEngine on|off */
MODRET set_engine(cmd_rec *cmd)
{
	config_rec *c;
	int engine;

	CHECK_ARGS(cmd, 1);
	CHECK_CONF(cmd, EVERYWHERE);
	engine = get_boolean(cmd, 1);
	if (engine == -1)
		CONF_ERROR(cmd, "expected Boolean parameter");
	c = add_config_param(cmd->argv[0], 1, NULL);
	c->argv[0] = palloc(c->pool, sizeof(int));
	*(int *)c->argv[0] = engine;
	return PR_HANDLED(cmd);
}

/* usage: FairwindMode advised|observe|standard|nocc */
MODRET set_mode(cmd_rec *cmd)
{
	static const char *const names[] = { "advised", "observe", "standard", "nocc" };
	config_rec *c;
	int way;

	CHECK_ARGS(cmd, 1);
	CHECK_CONF(cmd, EVERYWHERE);
	for (way = 0; way < 4 && strcasecmp(cmd->argv[1], names[way]); way++)
		;
	if (way == 4)
		CONF_ERROR(cmd, "expected advised, observe, standard or nocc");
	c = add_config_param(cmd->argv[0], 1, NULL);
	c->argv[0] = palloc(c->pool, sizeof(int));
	*(int *)c->argv[0] = way;
	return PR_HANDLED(cmd);
}

/* Takes `http://HOST:PORT` apart; NULL, or what is wrong with it. */
static const char *split_address(char *text, char **name, char **port)
{
	size_t length;
	char *end;
	long number;

	if (!strncasecmp(text, "unix:", 5))
		return "a Unix socket cannot be reached from a chroot (DefaultRoot); let the advisor "
		       "listen at 127.0.0.1";
	if (!strncasecmp(text, "https://", 8))
		return "the module does not speak TLS; let an advisor listen at 127.0.0.1";
	if (!strncasecmp(text, "http://", 7))
		text += 7;
	length = strlen(text);
	if (length && text[length - 1] == '/')
		text[--length] = '\0';
	*name = text;
	if (*text == '[') {
		*name = text + 1;
		end = strchr(text, ']');
		if (!end || end[1] != ':')
			return "expected http://[ADDRESS]:PORT";
		*end = '\0';
		*port = end + 2;
	} else {
		end = strrchr(text, ':');
		if (!end || strchr(text, ':') != end || end == text)
			return "expected http://HOST:PORT, such as http://127.0.0.1:8649";
		*end = '\0';
		*port = end + 1;
	}
	number = strtol(*port, &end, 10);
	if (!PR_ISDIGIT(**port) || *end || number < 1 || number > 65535)
		return "expected a port from 1 to 65535";
	if (strspn(*name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:") !=
	    strlen(*name))
		return "expected http://HOST:PORT, such as http://127.0.0.1:8649";
	return NULL;
}

const char *fairwind_set_address(pool *p, struct fairwind_advisor *advisor, const char *text)
{
	char *copy = pstrdup(p, text), *name, *port;
	const pr_netaddr_t *address;
	pr_netaddr_t *own;
	const char *wrong = split_address(copy, &name, &port);

	if (wrong)
		return wrong;
	address = pr_netaddr_get_addr(p, name, NULL);
	if (!address)
		return pstrcat(p, "no address of the host '", name, "'", NULL);
	own = pr_netaddr_dup(p, address);
	pr_netaddr_set_port(own, htons(atoi(port)));
	advisor->address_length = pr_netaddr_get_sockaddr_len(own);
	memcpy(&advisor->address, pr_netaddr_get_sockaddr(own), advisor->address_length);
	if (snprintf(advisor->name, sizeof(advisor->name), strchr(name, ':') ? "[%s]:%s" : "%s:%s",
		     name, port) >= (int)sizeof(advisor->name))
		return "the name of the host is too long";
	return NULL;
}

/* usage: FairwindAdvisor http://HOST:PORT|HOST:PORT */
MODRET set_advisor(cmd_rec *cmd)
{
	const char *wrong;
	config_rec *c;

	CHECK_ARGS(cmd, 1);
	CHECK_CONF(cmd, EVERYWHERE);
	c = add_config_param(cmd->argv[0], 1, NULL);
	c->argv[0] = pcalloc(c->pool, sizeof(struct fairwind_advisor));
	wrong = fairwind_set_address(cmd->tmp_pool, c->argv[0], cmd->argv[1]);
	if (wrong)
		CONF_ERROR(cmd, wrong);
	return PR_HANDLED(cmd);
}

/* Reads the token of a file that only its owner may read; NULL, or what is wrong. */
static const char *read_token(pool *p, const char *path, char *token)
{
	struct stat status;
	ssize_t length;
	int fd;

	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &status) < 0) {
		const char *wrong = pstrcat(p, "'", path, "': ", strerror(errno), NULL);

		if (fd >= 0)
			(void)close(fd);
		return wrong;
	}
	length = read(fd, token, FAIRWIND_TOKEN_SIZE - 1);
	(void)close(fd);
	if (!S_ISREG(status.st_mode) || status.st_mode & (S_IRWXG | S_IRWXO))
		return pstrcat(p, "'", path, "' must be a file that only its owner may read", NULL);
	token[length > 0 ? length : 0] = '\0';
	token[strcspn(token, "\r\n")] = '\0';
	if (strlen(token) < 16 ||
	    strspn(token,
		   "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~+/=") !=
		    strlen(token))
		return pstrcat(p, "'", path, "' has no token in its first line", NULL);
	return NULL;
}

/* usage: FairwindTokenFile PATH */
MODRET set_token_file(cmd_rec *cmd)
{
	const char *wrong;
	config_rec *c;

	CHECK_ARGS(cmd, 1);
	CHECK_CONF(cmd, EVERYWHERE);
	if (*(const char *)cmd->argv[1] != '/')
		CONF_ERROR(cmd, "expected an absolute path");
	c = add_config_param(cmd->argv[0], 1, NULL);
	c->argv[0] = pcalloc(c->pool, FAIRWIND_TOKEN_SIZE);
	wrong = read_token(cmd->tmp_pool, cmd->argv[1], c->argv[0]);
	if (wrong)
		CONF_ERROR(cmd, wrong);
	return PR_HANDLED(cmd);
}

static bool number_of(const char *text, long least, long most, long *number)
{
	char *end;

	errno = 0;
	*number = strtol(text, &end, 10);
	return !errno && PR_ISDIGIT(*text) && !*end && *number >= least && *number <= most;
}

/* usage: FairwindTimeout MILLISECONDS */
MODRET set_timeout(cmd_rec *cmd)
{
	config_rec *c;
	long ms;

	CHECK_ARGS(cmd, 1);
	CHECK_CONF(cmd, EVERYWHERE);
	if (!number_of(cmd->argv[1], SHORTEST_TIMEOUT_MS, LONGEST_TIMEOUT_MS, &ms))
		CONF_ERROR(cmd, "expected milliseconds, 1 to 5000");
	c = add_config_param(cmd->argv[0], 1, NULL);
	c->argv[0] = palloc(c->pool, sizeof(int));
	*(int *)c->argv[0] = (int)ms;
	return PR_HANDLED(cmd);
}

/* usage: FairwindInterval SHORTEST [LONGEST] */
MODRET set_interval(cmd_rec *cmd)
{
	long shortest, longest = FAIRWIND_LONGEST_INTERVAL_S;
	config_rec *c;

	CHECK_VARARGS(cmd, 1, 2);
	CHECK_CONF(cmd, EVERYWHERE);
	if (!number_of(cmd->argv[1], 1, FAIRWIND_LONGEST_INTERVAL_S, &shortest) ||
	    (cmd->argc == 3 && !number_of(cmd->argv[2], 1, FAIRWIND_LONGEST_INTERVAL_S, &longest)))
		CONF_ERROR(cmd, "expected seconds, 1 to 86400");
	if (shortest > longest)
		CONF_ERROR(cmd, "the shortest interval is longer than the longest");
	c = add_config_param(cmd->argv[0], 2, NULL, NULL);
	c->argv[0] = palloc(c->pool, sizeof(long));
	c->argv[1] = palloc(c->pool, sizeof(long));
	*(long *)c->argv[0] = shortest;
	*(long *)c->argv[1] = longest;
	return PR_HANDLED(cmd);
}

/* usage: FairwindMinimumBytes NUMBER [units] */
MODRET set_minimum(cmd_rec *cmd)
{
	config_rec *c;
	off_t bytes;

	CHECK_VARARGS(cmd, 1, 2);
	CHECK_CONF(cmd, EVERYWHERE);
	if (pr_str_get_nbytes(cmd->argv[1], cmd->argc == 3 ? cmd->argv[2] : NULL, &bytes) < 0 ||
	    bytes < 0)
		CONF_ERROR(cmd, "expected a number of bytes, and B, KB, MB, GB or TB after it");
	c = add_config_param(cmd->argv[0], 1, NULL);
	c->argv[0] = palloc(c->pool, sizeof(off_t));
	*(off_t *)c->argv[0] = bytes;
	return PR_HANDLED(cmd);
}

/* Whether it is an address, or one with the length of a prefix. Names would be looked up for every
 * transfer.
 */
static bool is_network(pool *p, const char *text)
{
	char *address = pstrdup(p, text), *slash = strchr(address, '/');
	unsigned char bytes[sizeof(struct in6_addr)];
	bool is_v4, is_v6;
	long bits;

	if (slash)
		*slash = '\0';
	is_v4 = inet_pton(AF_INET, address, bytes) == 1;
	is_v6 = inet_pton(AF_INET6, address, bytes) == 1;
	return (is_v4 || is_v6) && (!slash || number_of(slash + 1, 0, is_v4 ? 32 : 128, &bits));
}

/* usage: FairwindOwnNetworks NETWORK ..., FairwindExceptNetworks NETWORK ... */
MODRET set_networks(cmd_rec *cmd)
{
	array_header *list;
	config_rec *c;
	unsigned int i;

	CHECK_ARGS(cmd, 1);
	CHECK_CONF(cmd, EVERYWHERE);
	/* Of several in one context ProFTPD would find the first alone. */
	c = find_config(cmd->config ? cmd->config->subset : cmd->server->conf, CONF_PARAM,
			cmd->argv[0], FALSE);
	if (!c) {
		c = add_config_param(cmd->argv[0], 1, NULL);
		c->argv[0] = make_array(c->pool, cmd->argc, sizeof(pr_netacl_t *));
	}
	list = c->argv[0];
	for (i = 1; i < (unsigned int)cmd->argc; i++) {
		pr_netacl_t *acl;

		if (!strcasecmp(cmd->argv[i], "none") && cmd->argc == 2)
			break;
		if (!is_network(cmd->tmp_pool, cmd->argv[i]))
			CONF_ERROR(cmd, pstrcat(cmd->tmp_pool,
						"expected networks such as "
						"192.0.2.0/24, not '",
						cmd->argv[i], "'", NULL));
		/* There are no peers in it. */
		if (strchr(cmd->argv[i], ':') && !pr_netaddr_use_ipv6())
			continue;
		acl = pr_netacl_create(c->pool, pstrdup(c->pool, cmd->argv[i]));
		if (!acl)
			CONF_ERROR(cmd, pstrcat(cmd->tmp_pool, "'", cmd->argv[i],
						"': ", strerror(errno), NULL));
		*(pr_netacl_t **)push_array(list) = acl;
	}
	return PR_HANDLED(cmd);
}

/* usage: FairwindOptions KeepNetAdmin */
MODRET set_options(cmd_rec *cmd)
{
	unsigned long options = 0;
	config_rec *c;
	unsigned int i;

	CHECK_ARGS(cmd, 1);
	CHECK_CONF(cmd, EVERYWHERE);
	for (i = 1; i < (unsigned int)cmd->argc; i++) {
		if (strcasecmp(cmd->argv[i], "KeepNetAdmin"))
			CONF_ERROR(cmd, pstrcat(cmd->tmp_pool, "unknown option '", cmd->argv[i],
						"'", NULL));
		options |= FAIRWIND_KEEP_NET_ADMIN;
	}
	c = add_config_param(cmd->argv[0], 1, NULL);
	c->argv[0] = palloc(c->pool, sizeof(unsigned long));
	*(unsigned long *)c->argv[0] = options;
	return PR_HANDLED(cmd);
}

/* usage: FairwindLog PATH|none */
MODRET set_log(cmd_rec *cmd)
{
	CHECK_ARGS(cmd, 1);
	CHECK_CONF(cmd, EVERYWHERE);
	if (strcasecmp(cmd->argv[1], "none") && *(const char *)cmd->argv[1] != '/')
		CONF_ERROR(cmd, "expected an absolute path, or none");
	(void)add_config_param_str(cmd->argv[0], 1, cmd->argv[1]);
	return PR_HANDLED(cmd);
}

conftable fairwind_directives[] = {
	{ "FairwindAdvisor", set_advisor, NULL },
	{ "FairwindEngine", set_engine, NULL },
	{ "FairwindExceptNetworks", set_networks, NULL },
	{ "FairwindInterval", set_interval, NULL },
	{ "FairwindLog", set_log, NULL },
	{ "FairwindMinimumBytes", set_minimum, NULL },
	{ "FairwindMode", set_mode, NULL },
	{ "FairwindOptions", set_options, NULL },
	{ "FairwindOwnNetworks", set_networks, NULL },
	{ "FairwindTimeout", set_timeout, NULL },
	{ "FairwindTokenFile", set_token_file, NULL },
	{ NULL, NULL, NULL },
};
