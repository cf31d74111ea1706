#!/bin/sh
# Runs systemd as the first process of namespaces of its own, on this system's files, of which it changes a copy in
# memory: boot.sh FOLDER CGROUP PROGRAM EXAMPLES. FOLDER is empty; CGROUP is a new control group of version 2; PROGRAM
# becomes /usr/local/bin/fairwind, and EXAMPLES has the units. Everything ends with this process.
set -eu
echo $$ >"$2/cgroup.procs"
exec unshare --mount --pid --fork --kill-child --net --uts --ipc --cgroup --propagation private sh -euc '
	folder=$1 program=$2 examples=$3
	mount -t tmpfs tmpfs "$folder"
	mkdir "$folder/upper" "$folder/work" "$folder/root"
	root=$folder/root
	mount -t overlay -o "lowerdir=/,upperdir=$folder/upper,workdir=$folder/work" overlay "$root"
	mount -t proc proc "$root/proc"
	# Settings of the kernel are the whole machine'"'"'s.
	mount --bind "$root/proc/sys" "$root/proc/sys"
	mount -o remount,bind,ro "$root/proc/sys"
	mount -t sysfs -o ro sysfs "$root/sys"
	mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
	for place in run tmp dev; do mount -t tmpfs -o mode=755 tmpfs "$root/$place"; done
	chmod 1777 "$root/tmp"
	for device in null zero full random urandom tty; do
		touch "$root/dev/$device"
		mount --bind "/dev/$device" "$root/dev/$device"
	done
	mkdir "$root/dev/shm"
	ip link set lo up

	# Of this system, nothing is started but what the units need.
	rm -rf "$root/etc/systemd/system" "$root/srv" "$root/etc/fairwind"
	mkdir -p "$root/etc/systemd/system" "$root/srv/ftp" "$root/etc/fairwind" "$root/usr/local/bin" "$root/var/log"
	for unit in "$root"/lib/systemd/system/sysinit.target.wants/* "$root"/lib/systemd/system/timers.target.wants/* \
		"$root"/lib/systemd/system/local-fs.target.wants/*; do
		ln -sf /dev/null "$root/etc/systemd/system/$(basename "$unit")"
	done
	rm -f "$root/etc/fstab"
	cp "$examples"/fairwind-serve.* "$root/etc/systemd/system/"
	touch "$root/usr/local/bin/fairwind"
	mount --bind "$program" "$root/usr/local/bin/fairwind"
	head -c 4000000 /dev/urandom >"$root/srv/ftp/x"
	chown -R nobody "$root/srv/ftp"
	echo one >"$root/etc/fairwind/banner"
	echo "banner = \"/etc/fairwind/banner\"" >"$root/etc/fairwind/ftp.toml"
	rm -f "$root/etc/machine-id"
	echo 0123456789abcdef0123456789abcdef >"$root/etc/machine-id"

	mkdir "$root/old"
	cd "$root"
	pivot_root . old
	umount -l /old
	export container=fairwind PATH=/usr/sbin:/usr/bin:/sbin:/bin
	exec /lib/systemd/systemd --system --unit=sysinit.target --log-target=null --show-status=no </dev/null
' sh "$1" "$3" "$4"
