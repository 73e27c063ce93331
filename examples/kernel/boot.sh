#!/bin/sh
# Builds a module against Debian's kernel and loads it there, in a virtual machine: nothing of this machine is at risk.
#
#   examples/kernel/boot.sh DIR            a directory that `ingot compile --package kbuild` wrote
#
# Needs Debian's or a relative's apt, and: gcc make cpio busybox-static qemu-system-x86 linux-headers-cloud-amd64.
set -eu
module=$(cd "$1" && pwd)
name=$(sed -n 's/^obj-m := \(.*\)\.o$/\1/p' "$module/Kbuild")
version=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: linux-image-//p' | head -n 1)
work=build/kernel/machine
mkdir -p "$work/root/bin" "$work/root/proc" "$work/root/dev"

image=$work/image/boot/vmlinuz-$version
if [ ! -f "$image" ]; then
    (cd "$work" && apt-get download "linux-image-$version" && dpkg -x "linux-image-$version"_*.deb image)
fi
make -C "$module" KDIR="/lib/modules/$version/build"

cp "$(command -v busybox)" "$work/root/bin/busybox"
strip --strip-debug -o "$work/root/$name.ko" "$module/$name.ko"
cat >"$work/root/init" <<END
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t devtmpfs dev /dev
insmod /$name.ko selftest=1 && ls -l /dev/ingot-$name && rmmod $name
dmesg | grep ' $name: '
poweroff -f
END
chmod +x "$work/root/init"
(cd "$work/root" && find . | cpio -o -H newc -R 0:0 | gzip >../initrd.gz)
qemu-system-x86_64 -accel tcg -cpu max -m 256M -kernel "$image" -initrd "$work/initrd.gz" \
    -append "console=ttyS0 loglevel=4 panic=-1 quiet" -display none -monitor none -serial stdio -no-reboot -nodefaults
