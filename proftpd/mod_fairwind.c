/* SPDX-License-Identifier: GPL-2.0-or-later */
/* mod_fairwind: data connections that follow an advisor.
 *
 * When a data connection opens, the module asks an advisor about the path to its peer, and sets
 * congestion control, pacing and buffer of the live socket by the answer. It asks again at the time that
 * the answer names, by a timer, within sendfile(2) too. Source: Akarapu, "Evaluation of Dynamic TCP
 * Congestion Control Scheme in the ENABLE service" (2002), chapter 4, which changed ProFTPD itself.
 *
 * Needs ProFTPD 1.3.6 or later and Linux. Directives: docs/reference/proftpd.md.
 */
#include "conf.h"
#include "privs.h"

#include <stdbool.h>

#include "advisor.h"
#include "connection.h"
#include "directives.h"
#include "privileges.h"
#include "shared.h"

#define MOD_FAIRWIND_VERSION "mod_fairwind/0.1"

#if PROFTPD_VERSION_NUMBER < 0x0001030600
#error "ProFTPD 1.3.6 or later required"
#endif

#define DEFAULT_ADVISOR "127.0.0.1:8649"
#define DEFAULT_MINIMUM_BYTES (1 << 20)
#define DEFAULT_TIMEOUT_MS 200
#define DEFAULT_SHORTEST_S 1
/* How often a transfer is looked at, seconds: the resolution of ProFTPD's timers. */
#define TICK_S 1

extern module fairwind_module;
module fairwind_module;

static const char *trace_channel = "fairwind";

/* The configuration of a session. */
static struct {
	bool is_on;
	enum fairwind_way way;
	struct fairwind_advisor advisor;
	off_t minimum;
	uint32_t shortest_ms;
	uint32_t longest_ms;
	unsigned long options;
	config_rec *own;
	config_rec *excepted;
	int log_fd;
} settings = { .log_fd = -1 };

/* The transfer that the session makes, of which there is at most one. */
static struct {
	/* Between PRE_CMD and POST_CMD of a command that moves a file. */
	bool is_expected;
	/* Its data connection is followed. */
	bool is_running;
	bool is_own;
	/* The connection has the kernel's defaults for want of advice. */
	bool is_lost;
	bool has_advice;
	/* What was to be skipped, which ProFTPD forgets before the data connection opens. */
	off_t restart;
	struct fairwind_connection connection;
	struct fairwind_advice advice;
	int64_t ask_at_ms;
	int timer;
	char peer[INET6_ADDRSTRLEN];
	unsigned int port;
} transfer = { .timer = -1 };

static struct fairwind_host host = { .set_control = fairwind_set_control };
static struct fairwind_shared *shared;

/* The NetIO of data connections whose opening is heard of, while a transfer is expected. */
static pr_netio_t *own_netio, *heard_netio;
static int (*former_postopen)(pr_netio_stream_t *);
static int (*former_shutdown)(pr_netio_stream_t *, int);

static int sess_init(void);

/* ---- log */

static void write_log(bool is_warning, const char *line)
{
	char text[1024];

	if (transfer.peer[0])
		snprintf(text, sizeof(text),
			 strchr(transfer.peer, ':') ? "[%s]:%u: %s" : "%s:%u: %s", transfer.peer,
			 transfer.port, line);
	else
		sstrncpy(text, line, sizeof(text));
	pr_trace_msg(trace_channel, is_warning ? 1 : 3, "%s", text);
	if (settings.log_fd >= 0)
		(void)pr_log_writefile(settings.log_fd, MOD_FAIRWIND_VERSION, "%s", text);
	else if (is_warning)
		pr_log_pri(PR_LOG_NOTICE, MOD_FAIRWIND_VERSION ": %s", text);
	else
		pr_log_debug(DEBUG3, MOD_FAIRWIND_VERSION ": %s", text);
}

/* What concerns all transfers of the server. */
static void announce(const char *format, const char *about)
{
	char line[512];

	snprintf(line, sizeof(line), format, settings.advisor.name, about);
	if (settings.log_fd >= 0)
		(void)pr_log_writefile(settings.log_fd, MOD_FAIRWIND_VERSION, "%s", line);
	pr_log_pri(PR_LOG_NOTICE, MOD_FAIRWIND_VERSION ": %s", line);
}

/* ---- the question */

static off_t remaining_bytes(void)
{
	off_t total = session.xfer.file_size, done = session.xfer.total_bytes;
	off_t arrived = (off_t)fairwind_arrived(&transfer.connection);

	/* Only the sender knows how much there is. */
	if (session.xfer.direction != PR_NETIO_IO_WR)
		return -1;
	if (session.range_len > 0)
		total = session.range_len;
	else
		total -= transfer.restart;
	/* sendfile(2) tells of its bytes when it returns. */
	if (arrived > done)
		done = arrived;
	return total > done ? total - done : 0;
}

static bool ask(off_t remaining, int64_t now)
{
	struct fairwind_question question = { settings.advisor.name, settings.advisor.token,
					      transfer.peer, remaining };
	char why[FAIRWIND_WHY_SIZE] = "";

	if (fairwind_recall(shared, &question, now, &transfer.advice)) {
		pr_trace_msg(trace_channel, 7, "%s: what another transfer was answered",
			     transfer.peer);
		return true;
	}
	if (!fairwind_may_ask(shared, now))
		return false;
	if (!fairwind_ask(&settings.advisor, transfer.peer, remaining, &transfer.advice, why)) {
		pr_trace_msg(trace_channel, 5, "%s does not advise: %s", settings.advisor.name,
			     why);
		if (fairwind_note_failure(shared, now, fairwind_now_ms()))
			announce("no advice from %s, transfers continue with the kernel's "
				 "defaults: %s",
				 why);
		return false;
	}
	pr_trace_msg(trace_channel, 7, "%s: %s, %s, ask again after %u ms: %s", transfer.peer,
		     fairwind_mode_name(transfer.advice.mode),
		     transfer.advice.control[0] ? transfer.advice.control : "the kernel's default",
		     transfer.advice.again_ms, transfer.advice.reason);
	fairwind_remember(shared, &question, now, &transfer.advice);
	if (fairwind_note_success(shared))
		announce("%s advises again%s", "");
	return true;
}

/* The thesis' second way, as if somebody advised it. */
static void advise_nocc(void)
{
	memset(&transfer.advice, 0, sizeof(transfer.advice));
	transfer.advice.mode = FAIRWIND_NO_CONGESTION_CONTROL;
	sstrncpy(transfer.advice.control, "nocc", sizeof(transfer.advice.control));
	transfer.advice.again_ms = UINT32_MAX;
	sstrncpy(transfer.advice.reason, "FairwindMode nocc", sizeof(transfer.advice.reason));
}

static void be_advised(int64_t now)
{
	uint32_t wait;

	if (settings.way == FAIRWIND_WAY_NOCC) {
		advise_nocc();
		transfer.has_advice = true;
		transfer.ask_at_ms = INT64_MAX;
	} else if (ask(remaining_bytes(), now)) {
		transfer.has_advice = true;
		transfer.is_lost = false;
		wait = transfer.advice.again_ms;
		if (wait < settings.shortest_ms)
			wait = settings.shortest_ms;
		if (wait > settings.longest_ms)
			wait = settings.longest_ms;
		transfer.ask_at_ms = now + wait;
	} else {
		transfer.has_advice = false;
		/* At the next tick, as often as the others leave it to this session. */
		transfer.ask_at_ms = now;
		if (!transfer.is_lost)
			fairwind_restore(&transfer.connection, "there is no advice any more");
		transfer.is_lost = true;
	}
}

static void follow(void)
{
	if (transfer.has_advice)
		fairwind_follow(&transfer.connection, &transfer.advice, transfer.is_own);
}

/* ---- the peer */

static bool is_in(config_rec *networks, const pr_netaddr_t *address)
{
	const array_header *list;
	pr_netacl_t **acls;
	int i;

	if (!networks)
		return false;
	list = networks->argv[0];
	acls = list->elts;
	for (i = 0; i < list->nelts; i++)
		if (pr_netacl_match(acls[i], address) == 1)
			return true;
	return false;
}

/* The other end of a data connection, which need not be the client (a transfer between servers). */
static const pr_netaddr_t *peer_of(int fd)
{
	struct sockaddr_storage storage;
	socklen_t length = sizeof(storage);
	pr_netaddr_t *address, *plain;

	if (getpeername(fd, (struct sockaddr *)&storage, &length) < 0 ||
	    (storage.ss_family != AF_INET && storage.ss_family != AF_INET6))
		return NULL;
	address = pr_netaddr_alloc(session.xfer.p);
	pr_netaddr_set_family(address, storage.ss_family);
	pr_netaddr_set_sockaddr(address, (struct sockaddr *)&storage);
	if (pr_netaddr_is_v4mappedv6(address) == TRUE) {
		plain = pr_netaddr_v6tov4(session.xfer.p, address);
		address = plain ? plain : address;
	}
	transfer.port = ntohs(pr_netaddr_get_port(address));
	if (!inet_ntop(pr_netaddr_get_family(address), pr_netaddr_get_inaddr(address),
		       transfer.peer, sizeof(transfer.peer)))
		return NULL;
	return address;
}

/* ---- the transfer */

static int data_fd(void)
{
	pr_netio_stream_t *stream;

	if (!session.d)
		return -1;
	stream = session.xfer.direction == PR_NETIO_IO_RD ? session.d->instrm : session.d->outstrm;
	return stream ? PR_NETIO_FD(stream) : -1;
}

/* ProFTPD calls it where it handles signals, not in their handlers: anything may be done here, but the
 * transfer waits.
 */
static int tick(CALLBACK_FRAME)
{
	int64_t now = fairwind_now_ms();

	(void)p1, (void)p2, (void)p3, (void)data;
	if (!transfer.is_running) {
		transfer.timer = -1;
		return 0;
	}
	/* pr_timer_add() itself may call this, if a second has passed since timers were looked at; and the
	 * connection may be closed already, with the command still to be ended.
	 */
	if (!(session.sf_flags & SF_XFER) || data_fd() != transfer.connection.fd)
		return 1;
	fairwind_measure(&transfer.connection, now);
	if (now >= transfer.ask_at_ms &&
	    (session.xfer.direction == PR_NETIO_IO_WR ||
	     (off_t)fairwind_arrived(&transfer.connection) >= settings.minimum))
		be_advised(now);
	follow();
	return 1;
}

static void start(int fd)
{
	bool is_sender = session.xfer.direction == PR_NETIO_IO_WR;
	int64_t now = fairwind_now_ms();
	const pr_netaddr_t *address = peer_of(fd);

	host.is_observing = settings.way == FAIRWIND_WAY_OBSERVE;
	if (!address || is_in(settings.excepted, address) ||
	    !fairwind_connect(&transfer.connection, fd, is_sender, &host))
		return;
	if (is_sender && remaining_bytes() < settings.minimum)
		return;
	transfer.is_own = is_in(settings.own, address);
	transfer.is_running = true;
	transfer.is_lost = false;
	transfer.ask_at_ms = now;
	fairwind_measure(&transfer.connection, now);
	/* How much will be uploaded nobody says: an upload is asked about once it is large. */
	if (is_sender || settings.minimum == 0)
		be_advised(now);
	follow();
	transfer.timer = pr_timer_add(TICK_S, -1, &fairwind_module, tick, "advice");
}

static void end_transfer(void)
{
	if (transfer.timer >= 0)
		(void)pr_timer_remove(transfer.timer, &fairwind_module);
	transfer.timer = -1;
	transfer.is_running = false;
	transfer.has_advice = false;
	transfer.peer[0] = '\0';
}

/* ---- the opening of a data connection, and its end: no event tells of them for all kinds of connections, but these
 * callbacks do
 */

static int postopen(pr_netio_stream_t *stream)
{
	/* It comes for both streams of the connection, of which one is used. With TLS, it comes before
	 * the handshake.
	 */
	if (transfer.is_expected && !transfer.is_running &&
	    stream->strm_type == PR_NETIO_STRM_DATA &&
	    stream->strm_mode == session.xfer.direction && stream->strm_fd >= 0)
		start(stream->strm_fd);
	return former_postopen(stream);
}

/* The last byte has been sent or received. While ProFTPD waits for the other end to close, a timer would only disturb it:
 * each time it is interrupted it may wait for a second more.
 */
static int closing(pr_netio_stream_t *stream, int how)
{
	if (transfer.is_running && stream->strm_type == PR_NETIO_STRM_DATA)
		end_transfer();
	return former_shutdown(stream, how);
}

/* Only during a transfer: at other times the NetIO is as others have left it. */
static void hear_of_opening(void)
{
	pr_netio_t *current = pr_get_netio(PR_NETIO_STRM_DATA);

	if (!current) {
		if (!own_netio)
			own_netio = pr_alloc_netio2(permanent_pool, &fairwind_module, NULL);
		current = own_netio;
		if (pr_register_netio(current, PR_NETIO_STRM_DATA) < 0)
			return;
	}
	heard_netio = current;
	former_postopen = current->postopen;
	former_shutdown = current->shutdown;
	current->postopen = postopen;
	current->shutdown = closing;
}

static void hear_no_more(void)
{
	if (!heard_netio)
		return;
	heard_netio->postopen = former_postopen;
	heard_netio->shutdown = former_shutdown;
	if (heard_netio == own_netio && pr_get_netio(PR_NETIO_STRM_DATA) == own_netio)
		(void)pr_unregister_netio(PR_NETIO_STRM_DATA);
	heard_netio = NULL;
}

/* ---- commands */

MODRET before_transfer(cmd_rec *cmd)
{
	(void)cmd;
	if (!settings.is_on || settings.way == FAIRWIND_WAY_STANDARD)
		return PR_DECLINED(cmd);
	/* Should a command before have ended without its last phase. */
	end_transfer();
	hear_no_more();
	transfer.is_expected = true;
	transfer.restart = session.restart_pos;
	memset(&transfer.connection, 0, sizeof(transfer.connection));
	hear_of_opening();
	return PR_DECLINED(cmd);
}

/* What became of the connection, for LogFormat: %{note:fairwind.control} and the like. */
static void leave_notes(cmd_rec *cmd)
{
	char changes[16];

	snprintf(changes, sizeof(changes), "%u", transfer.connection.changes);
	(void)pr_table_add_dup(cmd->notes, "fairwind.control", transfer.connection.control, 0);
	(void)pr_table_add_dup(cmd->notes, "fairwind.changes", changes, 0);
}

MODRET after_transfer(cmd_rec *cmd)
{
	if (!transfer.is_expected)
		return PR_DECLINED(cmd);
	if (transfer.connection.control[0] && cmd->notes)
		leave_notes(cmd);
	transfer.is_expected = false;
	end_transfer();
	hear_no_more();
	return PR_DECLINED(cmd);
}

MODRET before_login(cmd_rec *cmd)
{
	(void)cmd;
	if (settings.is_on && settings.options & FAIRWIND_KEEP_NET_ADMIN)
		fairwind_keep_capabilities();
	return PR_DECLINED(cmd);
}

/* In the phase that comes last: mod_auth and mod_cap have done their work. */
MODRET after_login(cmd_rec *cmd)
{
	(void)cmd;
	if (settings.is_on && settings.options & FAIRWIND_KEEP_NET_ADMIN &&
	    !fairwind_reduce_capabilities(true))
		write_log(true,
			  "CAP_NET_ADMIN is not there to be kept: KeepNetAdmin needs a server "
			  "that starts as root, and CapabilitiesEngine off");
	return PR_DECLINED(cmd);
}

MODRET after_failed_login(cmd_rec *cmd)
{
	(void)cmd;
	if (settings.is_on && settings.options & FAIRWIND_KEEP_NET_ADMIN)
		(void)fairwind_reduce_capabilities(false);
	return PR_DECLINED(cmd);
}

/* ---- the configuration of a session */

static void *setting(const char *name)
{
	config_rec *c = find_config(main_server->conf, CONF_PARAM, name, FALSE);

	return c ? c->argv[0] : NULL;
}

static void read_advisor(void)
{
	const struct fairwind_advisor *advisor = setting("FairwindAdvisor");
	const char *token = setting("FairwindTokenFile");
	const int *timeout = setting("FairwindTimeout");

	memset(&settings.advisor, 0, sizeof(settings.advisor));
	if (advisor)
		settings.advisor = *advisor;
	else
		(void)fairwind_set_address(session.pool, &settings.advisor, DEFAULT_ADVISOR);
	if (token)
		sstrncpy(settings.advisor.token, token, sizeof(settings.advisor.token));
	settings.advisor.timeout_ms = timeout ? *timeout : DEFAULT_TIMEOUT_MS;
}

static void read_interval(void)
{
	config_rec *c = find_config(main_server->conf, CONF_PARAM, "FairwindInterval", FALSE);

	settings.shortest_ms = (c ? *(long *)c->argv[0] : DEFAULT_SHORTEST_S) * 1000;
	settings.longest_ms = (c ? *(long *)c->argv[1] : FAIRWIND_LONGEST_INTERVAL_S) * 1000;
}

static void open_log(void)
{
	const char *path = setting("FairwindLog");
	int opened;

	if (settings.log_fd >= 0)
		(void)close(settings.log_fd);
	settings.log_fd = -1;
	if (!path || !strcasecmp(path, "none"))
		return;
	pr_signals_block();
	PRIVS_ROOT
	opened = pr_log_openfile(path, &settings.log_fd, PR_LOG_SYSTEM_MODE);
	PRIVS_RELINQUISH
	pr_signals_unblock();
	if (opened == 0)
		return;
	settings.log_fd = -1;
	pr_log_pri(PR_LOG_NOTICE, MOD_FAIRWIND_VERSION ": unable to open FairwindLog '%s': %s",
		   path,
		   opened == PR_LOG_WRITABLE_DIR ? "its directory is writable by everybody" :
		   opened == PR_LOG_SYMLINK	 ? "it is a symbolic link" :
						   strerror(errno));
}

static void sess_reinit_ev(const void *event_data, void *user_data)
{
	(void)event_data, (void)user_data;
	/* A client has named another host: another server's configuration holds. */
	pr_event_unregister(&fairwind_module, "core.session-reinit", sess_reinit_ev);
	if (sess_init() < 0)
		pr_session_disconnect(&fairwind_module, PR_SESS_DISCONNECT_SESSION_INIT_FAILED,
				      NULL);
}

static int sess_init(void)
{
	const int *engine = setting("FairwindEngine"), *way = setting("FairwindMode");
	const off_t *minimum = setting("FairwindMinimumBytes");
	const unsigned long *options = setting("FairwindOptions");

	pr_event_register(&fairwind_module, "core.session-reinit", sess_reinit_ev, NULL);
	settings.is_on = engine && *engine;
	if (!settings.is_on)
		return 0;
	settings.way = way ? (enum fairwind_way) * way : FAIRWIND_WAY_ADVISED;
	settings.minimum = minimum ? *minimum : DEFAULT_MINIMUM_BYTES;
	settings.options = options ? *options : 0;
	settings.own = find_config(main_server->conf, CONF_PARAM, "FairwindOwnNetworks", FALSE);
	settings.excepted =
		find_config(main_server->conf, CONF_PARAM, "FairwindExceptNetworks", FALSE);
	read_advisor();
	read_interval();
	open_log();
	host.log = write_log;
	fairwind_read_limits(&host);
	return 0;
}

/* ---- the module */

#ifdef PR_SHARED_MODULE
static void unload_ev(const void *event_data, void *user_data)
{
	(void)user_data;
	if (strcmp("mod_fairwind.c", (const char *)event_data))
		return;
	pr_event_unregister(&fairwind_module, NULL, NULL);
	end_transfer();
	hear_no_more();
	fairwind_unshare(shared);
	shared = NULL;
}
#endif

static int init(void)
{
	/* Before the daemon forks: its sessions share it. */
	if (!shared)
		shared = fairwind_share();
#ifdef PR_SHARED_MODULE
	pr_event_register(&fairwind_module, "core.module-unload", unload_ev, NULL);
#endif
	return 0;
}

static cmdtable commands[] = {
	{ PRE_CMD, C_RETR, G_NONE, before_transfer, FALSE, FALSE, 0 },
	{ POST_CMD, C_RETR, G_NONE, after_transfer, FALSE, FALSE, 0 },
	{ POST_CMD_ERR, C_RETR, G_NONE, after_transfer, FALSE, FALSE, 0 },
	{ PRE_CMD, C_STOR, G_NONE, before_transfer, FALSE, FALSE, 0 },
	{ POST_CMD, C_STOR, G_NONE, after_transfer, FALSE, FALSE, 0 },
	{ POST_CMD_ERR, C_STOR, G_NONE, after_transfer, FALSE, FALSE, 0 },
	{ PRE_CMD, C_APPE, G_NONE, before_transfer, FALSE, FALSE, 0 },
	{ POST_CMD, C_APPE, G_NONE, after_transfer, FALSE, FALSE, 0 },
	{ POST_CMD_ERR, C_APPE, G_NONE, after_transfer, FALSE, FALSE, 0 },
	{ PRE_CMD, C_STOU, G_NONE, before_transfer, FALSE, FALSE, 0 },
	{ POST_CMD, C_STOU, G_NONE, after_transfer, FALSE, FALSE, 0 },
	{ POST_CMD_ERR, C_STOU, G_NONE, after_transfer, FALSE, FALSE, 0 },
	{ PRE_CMD, C_PASS, G_NONE, before_login, FALSE, FALSE, 0 },
	{ LOG_CMD, C_PASS, G_NONE, after_login, FALSE, FALSE, 0 },
	{ LOG_CMD_ERR, C_PASS, G_NONE, after_failed_login, FALSE, FALSE, 0 },
	{ 0, NULL, NULL, NULL, 0, 0, 0 },
};

module fairwind_module = {
	NULL,
	NULL,
	/* Version of the interface of modules. */
	0x20,
	"fairwind",
	fairwind_directives,
	commands,
	/* No authentication. */
	NULL,
	init,
	sess_init,
	MOD_FAIRWIND_VERSION,
};
