# A client's queue, started by cron as docs/how-to/fetch-with-ftp.md tells, over a restart of the machine.

page=fetch-with-ftp
home=/home/erin
log=$home/fetch/queue.log

# Ready before cron begins: a server that is not reached is left to the next run.
make_server() {
	[ -x /usr/local/bin/fairwind ] || install -m 755 fairwind /usr/local/bin/
	install -d -o nobody /srv/source
	head -c 1000 /dev/urandom >/srv/source/first
	head -c 20000000 /dev/urandom >/srv/source/big
	head -c 1000 /dev/urandom >/srv/source/last
	cat >/etc/systemd/system/source.service <<'END'
[Unit]
Before=cron.service
[Service]
Type=notify
User=nobody
RuntimeDirectory=source
LogsDirectory=source
ExecStart=/usr/local/bin/fairwind serve /srv/source --listen 127.0.0.1:2121 --rate-limit 1MB --command-log /var/log/source/commands
[Install]
WantedBy=multi-user.target
END
	systemctl daemon-reload
	systemctl enable --now source
}

# How often the server was asked for this: asked COMMAND
asked() { grep -Ec "\"command\":\"$1" /var/log/source/commands || true; }
part() { stat -c %s $home/fetch/.big.part; }

cron_starts_a_queue() {
	make_server
	useradd --create-home erin
	runuser -u erin -- mkdir $home/fetch
	printf 'ftp://127.0.0.1:2121/%s\n' first big last | runuser -u erin -- tee $home/fetch/queue
	block $page 'Fetch without supervision' text | crontab -u erin -
	# As if the machine had just started.
	systemctl stop cron
	rm -f /run/crond.reboot
	systemctl start cron
	until_true 60 eval "[ \$(part) -gt 5000000 ]"
	grep '/first".*"done"' $log
	[ "$(wc -l <$log)" = 1 ]
}

it_goes_on_where_it_was() {
	until_true 120 grep '/last".*"done"' $log
	cat $log
	[ "$(wc -l <$log)" = 3 ]
	local name
	for name in first big last; do cmp /srv/source/$name $home/fetch/$name; done
	[ "$(asked 'RETR /*first')" = 1 ]
	grep -E '"command":"(REST|RETR)' /var/log/source/commands
	[ "$(asked 'REST [1-9][0-9]{6}')" = 1 ]
}

if [ ! -e restarted ]; then
	check 'cron starts a queue' cron_starts_a_queue
	touch restarted
	restart
fi
check 'after a restart it goes on where it was' it_goes_on_where_it_was
