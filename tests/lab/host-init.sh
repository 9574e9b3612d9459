#!/bin/sh
# Pid 1 of one host of the laboratory, in mount, pid, network and UTS namespaces of its own.
# $1: the host's directory; $2: its name; $3: its address with prefix length; $4: where its local disks are mounted.
set -eu
dir=$1 name=$2 address=$3 local=$4
mount --make-rprivate /
mount -t sysfs sysfs /sys  # shows the network devices of this namespace only
hostname "$name"
# A copy of all of /etc: a mount on /etc/passwd alone would end when a user is added to the machine, which replaces it.
rm -rf "$dir/etc-copy"
cp -a /etc "$dir/etc-copy"
# Debian's libvirtd looks this user up before it reads in qemu.conf that it runs guests as another.
if ! grep -q '^libvirt-qemu:' /etc/passwd; then
    echo 'libvirt-qemu:x:64055:64055::/nonexistent:/usr/sbin/nologin' >> "$dir/etc-copy/passwd"
    echo 'libvirt-qemu:x:64055:' >> "$dir/etc-copy/group"
fi
mount --bind "$dir/etc-copy" /etc
for d in /run/libvirt /var/lib/libvirt /var/log/libvirt /var/cache/libvirt /etc/libvirt; do
    mkdir -p "$d"
    mount --bind "$dir$d" "$d"
done
mount --bind "$dir/local" "$local"
mount -t tmpfs tmpfs /run/lock  # names consoles by /dev/pts/N, which is private too
# A /dev without kvm: every machine can emulate, and a /dev/kvm that runs no guest makes libvirtd probe QEMU again, for
# seconds, each time it starts.
mkdir -p "$dir/dev"
mount -t tmpfs -o mode=755 tmpfs "$dir/dev"
mkdir "$dir/dev/pts" "$dir/dev/shm" "$dir/dev/net"
for d in null zero full random urandom tty net/tun; do
    [ -e "/dev/$d" ] || continue
    touch "$dir/dev/$d"
    mount --bind "/dev/$d" "$dir/dev/$d"
done
mount -t devpts -o newinstance,ptmxmode=0666,mode=0620 devpts "$dir/dev/pts"
ln -s pts/ptmx "$dir/dev/ptmx"
mount --rbind "$dir/dev" /dev
ip link set lo up
echo 1 > /proc/sys/net/ipv4/tcp_syn_retries  # libvirt has no time limit for connecting: give up after 3 s, not 130
while ! ip link show eth0 > /dev/null 2>&1; do sleep 0.02; done
ip addr add "$address" dev eth0
ip link set eth0 up
/usr/sbin/libvirtd --listen --pid-file /run/libvirt/libvirtd.pid &
# Pid 1 reaps orphans. libvirtd as pid 1 does not, and waits 40 s for the end of each probe of QEMU.
while :; do
    sleep 1 &
    wait $! || :
done
