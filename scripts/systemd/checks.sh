# Runs in the machine of scripts/try-systemd: the checks that it is given, and what they share.
# No `set -e`: what a check returns counts, not where the first command of this file has failed.
set -u
cd /root

failed=$(cat failed 2>/dev/null || echo 0)

# Runs a function, as bash -e does, and says whether it has succeeded; its output if not. One that cannot be tried returns 77,
# and its last line says why: check NAME FUNCTION [ARGUMENT...]
check() {
	local name=$1 said code began=$SECONDS
	shift
	said=$(set -e && "$@" 2>&1)
	code=$?
	if [ "$code" -eq 0 ]; then
		echo "ok      $name ($((SECONDS - began)) s)"
	elif [ "$code" -eq 77 ]; then
		echo "skipped $name: ${said##*$'\n'}"
	else
		echo "FAILED  $name ($((SECONDS - began)) s)"
		sed 's/^/        /' <<<"$said"
		failed=$((failed + 1))
	fi
}

# Has the machine started again at once; the file that calls this is then run once more: restart
restart() {
	echo "$failed" >failed
	exit 111
}

# Prints a finding beside the checks: found NAME VALUE
found() { echo "        $1: $2"; }

# The block of a page below a heading: block PAGE HEADING KIND [NUMBER]
block() {
	awk -v heading="$2" -v kind="\`\`\`$3" -v number="${4:-1}" '
		/^```/ { fenced = !fenced; if (inside && $0 == kind) taken = ++count == number; if (!fenced) taken = 0; next }
		!fenced && /^##? / { inside = $0 ~ "^##? " heading "$" }
		taken' "docs/how-to/$1.md" | grep . || { echo "no block $3 ${4:-1} below \"$2\" on the page $1" >&2 && return 1; }
}

# Demands that a command fails: errexit does not mind a `!`.
refused() {
	if "$@"; then echo "not refused: $*" && return 1; fi
}

# Waits for a command to succeed: until_true SECONDS COMMAND...
until_true() {
	local patience=$1 end
	shift
	end=$((SECONDS + patience))
	until "$@" >/dev/null 2>&1; do
		[ "$SECONDS" -lt "$end" ] || { echo "not within $patience s: $*" && "$@" && return 1; return 1; }
		sleep 0.3
	done
}

property() { systemctl show --property "$2" --value "$1"; }
is_active() { [ "$(property "$1" ActiveState)" = active ]; }

# Marks a moment in the journal; since then: journal UNIT
mark() { sync && cursor=$(journalctl --lines 0 --show-cursor | sed -n 's/^-- cursor: //p'); }
journal() { journalctl --after-cursor "$cursor" --output cat --no-pager --unit "$1"; }

# System calls that a filter has logged, which the kernel does by its audit: logged_calls
logged_calls() {
	journalctl --no-pager --output cat --after-cursor "$cursor" _TRANSPORT=audit + _TRANSPORT=kernel |
		sed -n 's/.*type=1326.*comm="\([^"]*\)".* syscall=\([0-9]*\).*/\1 \2/p; s/^SECCOMP .*comm="\([^"]*\)".* syscall=\([0-9]*\).*/\1 \2/p' |
		sort | uniq -c
}

# Lets a service make the calls that its filter denies, and logs them instead: log_denied_calls UNIT
log_denied_calls() {
	mkdir -p "/etc/systemd/system/$1.service.d"
	printf '%s\n' '[Service]' SystemCallFilter= "SystemCallLog=~$(sed -n 's/^SystemCallFilter=//p' "$1.service")" \
		>"/etc/systemd/system/$1.service.d/check.conf"
	systemctl daemon-reload
	mark
	# What would be seen is seen.
	systemd-run --quiet --wait --property=SystemCallLog=uname uname
	if ! until_true 10 eval '[ -n "$(logged_calls)" ]'; then
		rm "/etc/systemd/system/$1.service.d/check.conf"
		systemctl daemon-reload
		systemd-detect-virt --quiet --container || return 1
		echo "the kernel's audit is not to be seen in a container" && return 77
	fi
	mark
}

# Ends that, and demands that there were none.
no_calls_were_logged() {
	logged_calls | tee /tmp/logged
	rm "/etc/systemd/system/$1.service.d/check.conf"
	systemctl daemon-reload
	[ ! -s /tmp/logged ]
}

# What of capabilities(7) a process has, in a set of /proc/PID/status: capabilities PID [CapEff]
capabilities() {
	local set
	set=$(sed -n "s/^${2:-CapEff}:\t*//p" "/proc/$1/status")
	for name in 0:CHOWN 1:DAC_OVERRIDE 2:DAC_READ_SEARCH 3:FOWNER 4:FSETID 5:KILL 6:SETGID 7:SETUID 8:SETPCAP 10:NET_BIND_SERVICE \
		12:NET_ADMIN 13:NET_RAW 19:SYS_PTRACE 21:SYS_ADMIN 24:SYS_RESOURCE 29:AUDIT_WRITE 38:PERFMON 39:BPF; do
		(((0x$set >> ${name%%:*}) & 1)) && printf '%s ' "${name#*:}"
	done
	return 0
}

touch through
[ -s started ] || echo "Linux $(uname -r), $(systemctl --version | head -n1), $(. /etc/os-release && echo "$PRETTY_NAME")" | tee started
while read -r file; do
	! grep -qxF "$file" through || continue
	echo "# ${file%.sh}"
	. "checks/$file"
	echo "$file" >>through
done <checks/list
echo "$failed failed"
sync
exit $((failed > 0))
