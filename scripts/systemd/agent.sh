# The agent as fairwind-agent.service, set up as docs/how-to/run-the-agent.md tells.

page=run-the-agent
unit=fairwind-agent
policy=/etc/fairwind/agent.toml
# What connections have that meet no rule.
standard=$(cat /proc/sys/net/ipv4/tcp_congestion_control)

# In a container the agent takes care of that alone, not of the whole machine: confined FILE...
confined() {
	! systemd-detect-virt --quiet --container || sed -i 's|^ExecStart=/.*|& --control-group /sys/fs/cgroup|' "$@"
}

# A host beside this one, 10.0.0.2, where iperf3 listens.
make_peer() {
	ip netns add peer
	ip link add near type veth peer name far netns peer
	ip address add 10.0.0.1/24 dev near
	ip link set near up
	ip -n peer address add 10.0.0.2/24 dev far
	ip -n peer link set far up
	ip -n peer link set lo up
	systemd-run --quiet --unit=peer ip netns exec peer iperf3 -s
	until_true 20 eval 'echo >/dev/tcp/10.0.0.2/5201'
}

# The congestion control of the connections to it.
control() { ss -tinHO "dst 10.0.0.2:5201" | sed -n 's/.* \([a-z0-9_]*\) wscale:.*/\1/p' | tail -n1; }

# Runs a command while a program of this name sends to the peer, by iperf3: while_sending NAME COMMAND...
while_sending() {
	local name=$1 sender code=0
	shift
	cp /usr/bin/iperf3 "/tmp/$name"
	"/tmp/$name" -t 40 -b 5M -c 10.0.0.2 >/tmp/sent 2>&1 &
	sender=$!
	"$@" || code=1
	kill "$sender"
	wait "$sender" || true
	return "$code"
}
has_control() { [[ "$(control)" == $1 ]]; }

follows_the_page() {
	make_peer
	install -d /etc/fairwind
	[ -x /usr/local/bin/fairwind ] || install -m 755 fairwind /usr/local/bin/
	block $page 'Take care of a whole host' toml >$policy
	bash -e -c "$(block $page 'Take care of a whole host' sh | head -n2)"
	confined docs/examples/$unit.service
	bash -e -c "$(block $page 'As a service' sh)"
	is_active $unit
	until_true 20 fairwind agent status
	systemctl reload $unit
}

has_the_rights_it_needs() {
	local pid
	pid=$(property $unit MainPID)
	grep -E '^(NoNewPrivs|Seccomp):' "/proc/$pid/status"
	[ "$(capabilities "$pid")" = 'CHOWN DAC_OVERRIDE NET_ADMIN SYS_PTRACE SYS_ADMIN PERFMON BPF ' ]
	[ "$(capabilities "$pid" CapBnd)" = "$(capabilities "$pid")" ]
	[ "$(sed -n 's/^Seccomp:\t*//p' "/proc/$pid/status")" = 2 ]
	[ "$(property $unit NRestarts)" = 0 ]
	refused eval "journal $unit | grep -iE 'denied|not permitted|NAMESPACE|warn|error'"
}

rules_hold() {
	while_sending rsync until_true 15 has_control 'fw_fair*'
	while_sending other until_true 15 has_control "$standard"
	while_sending rsync eval "until_true 15 has_control 'fw_fair*' && fairwind agent status --live | tee /dev/stderr | grep rsync"
}

# Of a process whose control group is another user's, as those of sessions are.
users_runs_are_taken_care_of() {
	block $page 'Let others see' sh | head -n1 | bash -e
	useradd --create-home --groups fairwind dora
	mkdir -p /etc/systemd/system/$unit.service.d
	block $page 'Let others see' ini >/etc/systemd/system/$unit.service.d/group.conf
	confined /etc/systemd/system/$unit.service.d/group.conf
	mkdir -p /var/lib/prometheus/node-exporter
	systemctl daemon-reload
	systemctl restart $unit
	until_true 20 fairwind agent status
	local place
	for place in '' '--property=Delegate=yes'; do
		systemd-run --quiet --wait --pipe --uid=dora $place fairwind run --background --json="/tmp/run-$SECONDS" -- iperf3 -t 3 -b 5M -c 10.0.0.2
		grep -E '"means": *"agent"' /tmp/run-* && rm /tmp/run-*
	done
	until_true 30 grep fairwind_agent_rules /var/lib/prometheus/node-exporter/fairwind.prom
}

# By the advisor of this host, which listens at a port of the loopback.
advice_is_followed() {
	export XDG_STATE_HOME=/root/state
	fairwind advisor paths add everywhere 0.0.0.0/0 --mode background
	systemd-run --quiet --unit=advisor --setenv=XDG_STATE_HOME=/root/state /usr/local/bin/fairwind advisor
	until_true 30 fairwind advise 10.0.0.2
	block $page 'Follow an advisor' toml >$policy
	fairwind agent reload
	while_sending other until_true 15 has_control 'fw_fair*' || { journalctl --no-pager -n 20 -u $unit -u advisor && return 1; }
	systemctl stop advisor
}

reload_tells_mistakes() {
	echo '[[rule]' >>$policy
	refused systemctl reload $unit
	is_active $unit
	block $page 'Take care of a whole host' toml >$policy
	systemctl reload $unit
}

stopping_leaves_connections_as_they_are() {
	while_sending rsync eval "until_true 15 has_control 'fw_fair*' && systemctl stop $unit && has_control 'fw_fair*'"
	[ "$(property $unit Result)" = success ]
	while_sending rsync until_true 15 has_control "$standard"
	systemctl start $unit
	until_true 20 fairwind agent status
	while_sending rsync until_true 15 has_control 'fw_fair*'
}

a_crash_is_followed_by_a_restart() {
	while_sending rsync eval "until_true 15 has_control 'fw_fair*' && systemctl kill --signal KILL $unit && until_true 30 eval '[ \$(property $unit NRestarts) = 1 ] && fairwind agent status' && has_control 'fw_fair*' && fairwind agent undo && until_true 10 has_control $standard"
	fairwind agent reload
	while_sending rsync until_true 15 has_control 'fw_fair*'
}

no_call_is_denied() {
	log_denied_calls $unit
	systemctl restart $unit
	until_true 20 fairwind agent status
	while_sending rsync until_true 15 has_control 'fw_fair*'
	fairwind agent status --live
	systemctl reload $unit
	systemctl stop $unit
	no_calls_were_logged $unit
	systemctl start $unit
	until_true 20 fairwind agent status
}

undoing_gives_everything_back() {
	fairwind agent undo
	systemctl stop $unit
	while_sending rsync until_true 15 has_control "$standard"
}

mark
check 'the page leads to an agent' follows_the_page
check 'it has the rights it needs' has_the_rights_it_needs
check 'rules hold' rules_hold
check 'runs of users are taken care of' users_runs_are_taken_care_of
check 'advice is followed' advice_is_followed
check 'a mistake is told by reload' reload_tells_mistakes
check 'stopping leaves connections as they are' stopping_leaves_connections_as_they_are
check 'a crash is followed by a restart' a_crash_is_followed_by_a_restart
check 'no system call is denied' no_call_is_denied
check 'everything is given back' undoing_gives_everything_back
check 'systemd-analyze verify' systemd-analyze verify --man=no /etc/systemd/system/$unit.service
found 'exposure' "$(systemd-analyze security --no-pager $unit.service | tail -n1)"
