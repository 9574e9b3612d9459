"""The laboratory: three real libvirt hosts on one machine, and what is tested on them."""
