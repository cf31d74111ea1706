# The FTP server as fairwind-serve.service, set up as docs/how-to/public-ftp-server.md tells.

page=public-ftp-server
unit=fairwind-serve
dropins=/etc/systemd/system/$unit.service.d
host=ftp.example.org

run_block() { bash -e -c "$(block "$page" "$@")"; }

# An authority that certbot asks in place of its own, and to which it is the page's host; /root/ca.pem is its root. Its
# certificates are renewed whenever somebody looks, since they last for ten days.
authority() {
	sed -i "s/ localhost/& $host/" /etc/hosts
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj /CN=localhost \
		-addext subjectAltName=DNS:localhost -keyout /root/acme.key -out /root/acme.pem
	cat >/root/acme.json <<'END'
{
  "pebble": {
    "listenAddress": "127.0.0.1:14000",
    "managementListenAddress": "127.0.0.1:15000",
    "certificate": "/root/acme.pem",
    "privateKey": "/root/acme.key",
    "httpPort": 80,
    "tlsPort": 443,
    "certificateValidityPeriod": 864000
  }
}
END
	systemd-run --quiet --unit=acme --setenv=PEBBLE_VA_NOSLEEP=1 pebble -config /root/acme.json
	until_true 60 curl -sS --fail --cacert /root/acme.pem https://localhost:15000/roots/0 -o /root/ca.pem
	# What the page leaves to the questions of certbot.
	printf '%s\n' 'server = https://localhost:14000/dir' 'no-verify-ssl = true' 'agree-tos = true' \
		'register-unsafely-without-email = true' >>/etc/letsencrypt/cli.ini
}

# The page's configuration, with a hash in place of its dots.
configure() {
	local hash
	hash=$(echo secret | fairwind serve --hash-password)
	block "$page" 'Write the configuration' toml | sed "s|\$argon2id\$v=19\$\.\.\.|$hash|" >/etc/fairwind/ftp.toml
}

client() { curl -sS --cacert /root/ca.pem --ssl-reqd --max-time 120 "$@"; }
main() { property $unit MainPID; }
restarts() { property $unit NRestarts; }
# Changes the unit, and starts it anew: drop_in LINE...
drop_in() {
	mkdir -p "$dropins" && printf '%s\n' '[Service]' "$@" >"$dropins/check.conf"
	systemctl daemon-reload && systemctl restart $unit
}
leave_alone() {
	rm -f "$dropins/check.conf"
	systemctl daemon-reload && systemctl restart $unit
}
serial() {
	openssl s_client -connect $host:990 -servername $host -CAfile /root/ca.pem -verify_hostname $host -verify_return_error \
		</dev/null 2>/dev/null | openssl x509 -noout -serial
}

follows_the_page() {
	run_block 'Make the directory and its user' sh
	block "$page" 'Get a certificate' bash >/etc/fairwind/renewed
	run_block 'Get a certificate' text
	configure
	run_block 'Write the configuration' sh
	run_block 'Start the service' sh
	is_active $unit
}

# Twice a day, by the timer of certbot's package.
the_certificate_is_renewed() {
	systemctl is-enabled certbot.timer
	systemctl is-active certbot.timer
	local before
	before=$(serial)
	systemctl start certbot.service
	journal certbot
	until_true 20 eval '[ "$(serial)" != "'"$before"'" ]'
	[ "$(stat -c %U:%a /etc/fairwind/privkey.pem)" = root:600 ]
	client ftps://$host:990/ -o /dev/null
}

is_confined() {
	local pid unexpected
	journal $unit
	[ "$(restarts)" = 0 ]
	for pid in $(cat "/sys/fs/cgroup$(property $unit ControlGroup)/cgroup.procs"); do
		echo "$pid $(tr '\0' ' ' <"/proc/$pid/cmdline"): $(grep -E '^(Uid|NoNewPrivs|Seccomp):' "/proc/$pid/status" | tr -s '\t\n' ' ') $(capabilities "$pid")"
		[ "$(sed -n 's/^NoNewPrivs:\t*//p' "/proc/$pid/status")" = 1 ]
		[ "$(sed -n 's/^Seccomp:\t*//p' "/proc/$pid/status")" = 2 ]
	done
	[ "$(capabilities "$(main)")" = 'NET_ADMIN ' ]
	[ "$(stat -c %U "/proc/$(main)")" = ftp ]
	refused eval "journal $unit | grep -iE 'denied|not permitted|226|NAMESPACE|warn'"
}

strangers_read_and_leave_files() {
	head -c 3000000 /dev/urandom >/srv/ftp/pub/x
	# More than the buffers of a connection hold.
	head -c 30000000 /dev/urandom >/srv/ftp/pub/big
	client ftp://$host/pub/x -o /tmp/x
	cmp /tmp/x /srv/ftp/pub/x
	client ftps://$host:990/pub/x -o /tmp/x
	cmp /tmp/x /srv/ftp/pub/x
	fairwind get --tls-ca /root/ca.pem ftpes://$host/pub/x /tmp/got
	cmp /tmp/got /srv/ftp/pub/x
	lftp -e "set ssl:ca-file /root/ca.pem; set ftp:ssl-force true; set ftp:ssl-allow-anonymous true; get ftp://$host/pub/x -o /tmp/lftp; quit" </dev/null
	cmp /tmp/lftp /srv/ftp/pub/x
	client -T /tmp/x ftp://$host/incoming/left
	[ "$(stat -c %U /srv/ftp/incoming/left)" = ftp ]
	refused client ftp://$host/incoming/left
	refused client -T /tmp/x ftp://$host/pub/new
	# TLS is required.
	refused curl -sS ftp://$host/pub/x -o /tmp/x
}

users_have_their_rights_and_limits() {
	client -u alice:secret -T /tmp/x ftp://$host/y
	cmp /srv/ftp/alice/y /tmp/x
	client -u alice:secret -Q 'SITE QUOTA' -v ftp://$host/ -o /dev/null 2>&1 | grep 10000000000
	client -u carol:secret ftp://$host/incoming/left -o /tmp/z
	cmp /tmp/z /tmp/x
	refused client -u carol:secret ftp://$host/alice/y
	refused client -u alice:wrong ftp://$host/y
	# Ten sessions from an address.
	local held=() number line
	for number in 1 2 3 4 5 6 7 8 9 10; do
		exec {held[number]}<>/dev/tcp/localhost/21
		read -r -t 20 line <&"${held[number]}"
		[[ $line == 220* ]]
	done
	exec {held[11]}<>/dev/tcp/localhost/21
	read -r -t 20 line <&"${held[11]}"
	[[ $line == 421* ]]
}

the_operator_sees() {
	client --limit-rate 1M ftp://$host/pub/big -o /tmp/slow &
	until_true 20 eval 'fairwind serve --sessions | grep -F RETR'
	curl -sS http://127.0.0.1:9121/metrics | grep -E '^fairwind_ftp_logins_total\{user="named"\} [1-9]'
	fairwind serve --kill "$(fairwind serve --sessions | awk '/RETR/ { print $1; exit }')"
	refused wait $!
	until_true 10 grep -F '/pub/x' /var/log/fairwind/xferlog
	grep -F '"command":"PASS ****"' /var/log/fairwind/ftp.json
	journal $unit | grep -F 'serving ftp://[::]:21/'
	journal $unit | grep -F 'serving ftps://[::]:990/'
	[[ "$(property $unit StatusText)" == *sessions* || "$(property $unit StatusText)" == serving* ]]
}

logs_are_rotated() {
	block "$page" 'Rotate the logs' text >/etc/logrotate.d/fairwind
	logrotate --force /etc/logrotate.d/fairwind
	[ -s /var/log/fairwind/xferlog.1 ]
	client ftp://$host/pub/x -o /tmp/x
	until_true 20 grep -F /pub/x /var/log/fairwind/xferlog
	until_true 20 grep -F RETR /var/log/fairwind/ftp.json
	logrotate --force /etc/logrotate.d/fairwind
	[ -s /var/log/fairwind/xferlog.2.gz ]
}

the_kernel_encrypts() {
	# A container has the modules of its host.
	systemd-detect-virt --quiet --container || grep -E '^tls ' /proc/modules
	journalctl --no-pager --output cat -u $unit | grep -i 'kernel' | head -n 3
	[ ! -e /proc/net/tls_stat ] || awk '$1 == "TlsTxSw" { taken = $2 } END { exit taken == 0 }' /proc/net/tls_stat
}

reload_leaves_no_gap() {
	local before pid load
	before=$(serial) pid=$(main)
	client --limit-rate 2M ftp://$host/pub/big -o /tmp/slow &
	load=$!
	(for _ in $(seq 60); do
		exec 3<>/dev/tcp/localhost/21 && read -r -t 20 line <&3 && [[ $line == 220* ]] || echo "refused: ${line:-}"
		exec 3<&-
		sleep 0.05
	done) >/tmp/gaps 2>&1 &
	systemctl start certbot.service
	echo 'Another banner' >/etc/fairwind/banner
	until_true 20 eval '[ "$(serial)" != "'"$before"'" ]'
	systemctl reload $unit
	wait $load
	cmp /tmp/slow /srv/ftp/pub/big
	wait
	cat /tmp/gaps
	[ ! -s /tmp/gaps ]
	client -v ftp://$host/pub/ -o /dev/null 2>&1 | grep 'Another banner'
	[ "$(main)" = "$pid" ]
}

a_wrong_configuration_is_told_by_reload() {
	local pid
	pid=$(main)
	cp /etc/fairwind/ftp.toml /root/right.toml
	sed -i 's/^sessions = .*/sessions = "many"/' /etc/fairwind/ftp.toml
	refused systemctl reload $unit
	install -m 600 /root/right.toml /etc/fairwind/ftp.toml
	journal $unit | grep sessions
	[ "$(main)" = "$pid" ]
	is_active $unit
	client ftp://$host/pub/x -o /tmp/x
	systemctl reload $unit
}

stopping_lets_transfers_end() {
	local began load
	client --limit-rate 400k -u alice:secret -T /srv/ftp/pub/x ftp://$host/slow &
	load=$!
	until_true 20 eval 'fairwind serve --sessions | grep -F STOR'
	began=$SECONDS
	systemctl stop $unit &
	until_true 10 eval '! { exec 3<>/dev/tcp/localhost/21; }'
	wait $load
	wait
	cmp /srv/ftp/alice/slow /srv/ftp/pub/x
	echo "stopped after $((SECONDS - began)) s"
	[ "$(property $unit Result)" = success ]
	systemctl start $unit
	client ftp://$host/pub/x -o /tmp/x
}

a_crash_is_followed_by_a_restart() {
	local before
	before=$(restarts)
	systemctl kill --kill-who=main --signal KILL $unit
	until_true 30 eval "[ \$(restarts) -gt $before ] && is_active $unit"
	client ftp://$host/pub/x -o /tmp/x
	fairwind serve --sessions
	[ "$(wc -l <"/sys/fs/cgroup$(property $unit ControlGroup)/cgroup.procs")" -le 3 ]
}

a_hang_is_followed_by_a_restart() {
	drop_in WatchdogSec=8
	mark
	local before
	before=$(restarts)
	sleep 10
	[ "$(restarts)" = "$before" ]
	kill -STOP "$(main)"
	until_true 60 eval "[ \$(restarts) -gt $before ] && is_active $unit"
	journal $unit | grep -i watchdog
	client ftp://$host/pub/x -o /tmp/x
	leave_alone
}

system_users_log_in() {
	useradd --create-home bob
	echo bob:secret | chpasswd
	block "$page" 'Let system users in' text >/etc/pam.d/fairwind
	run_block 'Let system users in' text 2
	{ block "$page" 'Let system users in' toml 1 && cat /etc/fairwind/ftp.toml && block "$page" 'Let system users in' toml 2; } >/root/new.toml
	install -m 600 /root/new.toml /etc/fairwind/ftp.toml
	systemctl restart $unit
	mark
	client -u bob:secret -T /tmp/x ftp://$host/mine
	[ "$(stat -c %U:%a /srv/ftp/bob/mine)" = bob:644 ]
	client -u bob:secret ftp://$host/mine -o /tmp/z
	cmp /tmp/z /tmp/x
	refused client -u bob:wrong ftp://$host/mine
	refused client -u root:secret ftp://$host/mine
	client -u alice:secret ftp://$host/y -o /tmp/z
	refused eval "journal $unit | grep -i audit"
}

# Each is opened at the login, and closed when the server has stopped, or was killed, however long a module takes for it.
sessions_of_system_users_are_closed() {
	printf '%s\n' '#!/bin/sh' '[ "$PAM_TYPE" = open_session ] || sleep 3' 'echo "$PAM_TYPE $PAM_USER" >>/run/fairwind/sessions' >/usr/local/bin/tell
	chmod 755 /usr/local/bin/tell
	echo 'session required pam_exec.so /usr/local/bin/tell' >>/etc/pam.d/fairwind
	sed -i '1i pam_session = true' /etc/fairwind/ftp.toml
	systemctl restart $unit
	local signal
	for signal in TERM KILL; do
		mark
		rm -f /run/fairwind/sessions
		client --limit-rate 300k -u bob:secret -T /tmp/x ftp://$host/mine &
		until_true 30 eval 'fairwind serve --sessions | grep -E "bob .*STOR"'
		grep 'open_session bob' /run/fairwind/sessions
		case $signal in
		TERM) systemctl stop $unit ;;
		KILL) systemctl kill --kill-who=main --signal KILL $unit ;;
		esac
		wait || true
		until_true 40 grep 'close_session bob' /run/fairwind/sessions || { journal $unit && return 1; }
		[ $signal = KILL ] || systemctl start $unit
	done
	until_true 30 is_active $unit
}

systemd_opens_the_port() {
	run_block 'Start the service' sh 2
	client ftp://$host/pub/x -o /tmp/x
	# Whoever comes first starts it.
	systemctl stop $unit
	refused is_active $unit
	client ftp://$host/pub/x -o /tmp/x
	is_active $unit
	client ftps://$host:990/pub/x -o /tmp/x
	(for _ in $(seq 40); do
		exec 3<>/dev/tcp/localhost/21 && read -r -t 60 line <&3 && [[ $line == 220* ]] || echo "refused: ${line:-}"
		exec 3<&-
		sleep 0.1
	done) >/tmp/gaps 2>&1 &
	systemctl restart $unit
	wait
	cat /tmp/gaps
	[ ! -s /tmp/gaps ]
	systemctl disable --now fairwind-serve.socket
	systemctl restart $unit
}

users_homes_are_served() {
	mkdir -p "$dropins"
	block "$page" 'Let system users in' ini >"$dropins/home.conf"
	cp /etc/fairwind/ftp.toml /root/right.toml
	install -d -o nobody -g nogroup /home/alice
	sed -i '1i anonymous = false' /etc/fairwind/ftp.toml
	systemctl daemon-reload
	systemctl restart $unit
	client -u bob:secret -T /tmp/x ftp://$host/home
	[ "$(stat -c %U /home/bob/home)" = bob ]
	refused client ftp://$host/
	rm "$dropins/home.conf"
	install -m 600 /root/right.toml /etc/fairwind/ftp.toml
	systemctl daemon-reload
	systemctl restart $unit
}

no_call_is_denied() {
	log_denied_calls $unit
	systemctl restart $unit
	client ftp://$host/pub/x -o /tmp/x
	client -u alice:secret -T /tmp/x ftp://$host/again
	client -u bob:secret ftp://$host/mine -o /tmp/x
	client ftps://$host:990/ -o /dev/null
	systemctl reload $unit
	systemctl stop $unit
	no_calls_were_logged $unit
	systemctl start $unit
}

systemd_analyzes() {
	systemd-analyze verify --man=no /etc/systemd/system/$unit.service "/root/fairwind-serve.socket"
}

mark
check 'there is an authority' authority
check 'the page leads to a server' follows_the_page
check 'certbot renews the certificate, and the server has it' the_certificate_is_renewed
check 'it is confined, and warns of nothing' is_confined
check 'strangers read, and leave files' strangers_read_and_leave_files
check 'users have their rights, and limits hold' users_have_their_rights_and_limits
check 'the operator sees and ends sessions' the_operator_sees
check 'logs are rotated' logs_are_rotated
check 'the kernel encrypts downloads' the_kernel_encrypts
check 'a reload leaves no gap' reload_leaves_no_gap
check 'a wrong configuration is told by reload' a_wrong_configuration_is_told_by_reload
check 'stopping lets transfers end' stopping_lets_transfers_end
check 'a crash is followed by a restart' a_crash_is_followed_by_a_restart
check 'a hang is followed by a restart' a_hang_is_followed_by_a_restart
check 'system users log in' system_users_log_in
check 'sessions of system users are closed' sessions_of_system_users_are_closed
check 'homes of users are served' users_homes_are_served
check 'systemd opens the port' systemd_opens_the_port
check 'no system call is denied' no_call_is_denied
check 'systemd-analyze verify' systemd_analyzes
found 'exposure' "$(systemd-analyze security --no-pager $unit.service | tail -n1)"
