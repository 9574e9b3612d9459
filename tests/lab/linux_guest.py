"""A Linux guest: Debian's cloud kernel and busybox, from packages that are unpacked and not installed.

It boots from a hybrid ISO image, reads its config drive and prints what it found on its serial console.
"""

import gzip
import io
import re
import subprocess
import tempfile
from pathlib import Path

import pycdlib

from tests.environments import HERE as CACHE

MEMORY_MB = 192
_META_PACKAGE = "linux-image-cloud-amd64"
_TOOLS = ("busybox-static", "isolinux", "syslinux-common")
_MODULES = ("virtio_pci", "virtio_blk", "isofs")
_INIT = """\
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
for module in {modules}; do insmod /modules/$module.ko; done
mount -t iso9660 -o ro /dev/vdb /mnt
echo "LINUX kernel=$(uname -r)"
cd /mnt
for file in openstack/latest/meta_data.json meta-data; do [ -e $file ] && echo "LINUX metadata=$(cat $file)"; done
for file in openstack/latest/user_data user-data; do [ -e $file ] && sh $file; done
echo "LINUX done"
poweroff -f
"""
_BOOT = "default linux\nlabel linux\nkernel /KERNEL\nappend initrd=/INITRD console=ttyS0 quiet panic=1\n"


class Unavailable(Exception):
    """The packages cannot be downloaded here."""


def image() -> Path:
    """Return the image, built once and kept. Raises Unavailable."""
    CACHE.mkdir(exist_ok=True)
    kernel = _kernel_package()
    path = CACHE / f"{kernel}.iso"
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
            root = Path(scratch)
            _unpack(root, kernel, *_TOOLS)
            part = root / "image.iso"
            _write_image(root, part)
            part.rename(path)
    return path


def _kernel_package() -> str:
    """Return the package that the meta package depends on."""
    found = re.search(r"Depends: (linux-image-\S+)", _output("apt-cache", "depends", _META_PACKAGE))
    if found is None:
        raise Unavailable(f"apt-get knows no {_META_PACKAGE}")
    return found[1]


def _unpack(root: Path, *packages: str) -> None:
    _output("apt-get", "-qq", "download", *packages, directory=root)
    for package in root.glob("*.deb"):
        _output("dpkg-deb", "--extract", str(package), str(root))


def _output(*command: str, directory: Path | None = None) -> str:
    try:
        done = subprocess.run(command, cwd=directory, check=True, capture_output=True, text=True, timeout=300)
    except (OSError, subprocess.SubprocessError) as error:
        raise Unavailable(f"{' '.join(command)}: {getattr(error, 'stderr', None) or error}") from error
    return done.stdout


def _write_image(root: Path, path: Path) -> None:
    """Write an ISO image that boots as a hard disk too."""
    files = {
        "/ISOLINUX.BIN": (root / "usr/lib/ISOLINUX/isolinux.bin").read_bytes(),
        "/LDLINUX.C32": (root / "usr/lib/syslinux/modules/bios/ldlinux.c32").read_bytes(),
        "/ISOLINUX.CFG": _BOOT.encode(),
        "/KERNEL": next(root.glob("boot/vmlinuz-*")).read_bytes(),
        "/INITRD": gzip.compress(_initramfs(root), 6),
    }
    iso = pycdlib.PyCdlib()
    iso.new(interchange_level=4, vol_ident="linux")
    for name, content in files.items():
        iso.add_fp(io.BytesIO(content), len(content), name)
    iso.add_eltorito("/ISOLINUX.BIN", boot_load_size=4, boot_info_table=True)
    iso.add_isohybrid()
    iso.write(str(path))
    iso.close()


def _initramfs(root: Path) -> bytes:
    """Return a newc archive with busybox, the modules and the init script."""
    archive = b"".join(_entry(name, 0o040755) for name in ("bin", "dev", "proc", "sys", "mnt", "modules"))
    archive += _entry("bin/busybox", 0o100755, (root / "bin/busybox").read_bytes())
    modules = dict[str, bytes]()
    for module in _MODULES:
        _add_module(root, module, modules)
    for module, content in modules.items():
        archive += _entry(f"modules/{module}.ko", 0o100644, content)
    archive += _entry("init", 0o100755, _INIT.format(modules=" ".join(modules)).encode())
    return archive + _entry("TRAILER!!!", 0)


def _add_module(root: Path, module: str, modules: dict[str, bytes]) -> None:
    """Add a module after those that it depends on, which differ from one kernel to the next."""
    if module in modules:
        return
    content = next(root.glob(f"lib/modules/*/kernel/**/{module}.ko")).read_bytes()
    depends = re.search(rb"\0depends=([^\0]*)\0", content)
    assert depends is not None, module
    for needed in depends[1].decode().split(","):
        if needed:
            _add_module(root, needed, modules)
    modules[module] = content


def _entry(name: str, mode: int, content: bytes = b"") -> bytes:
    fields = (0, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
    header = b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
    return _padded(header) + _padded(content)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)
