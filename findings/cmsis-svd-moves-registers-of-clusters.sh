#!/usr/bin/env bash
# cmsis-svd 0.6 (PyPI), which reads the descriptions of microcontrollers (SVD) that Arm defines: a controller with two channels of registers
# (a cluster of 32 bytes each), each of which has a group of registers in it.
# Expected: the place of a register is the sum of the offsets of all that it lies in, and a value after reset that a cluster states is that of its registers,
# as the standard says.
# Seen: a register of a group lies at its offset from the channel, in each channel at the same one, where the first controller has other registers, and under
# one name: what writes to the limit of a buffer writes to STATUS. The value that the cluster states is passed by. With success.
. "$(dirname "$0")/common.sh"
recorded <<'END'
DMA ENABLE: 0x40000000, after reset 0x0
DMA STATUS: 0x40000014, after reset 0x0
DMA CHANNEL0_CONTROL: 0x40000084, after reset 0x0
DMA BUFFER_LIMIT: 0x40000014, after reset 0x0
DMA CHANNEL1_CONTROL: 0x400000a4, after reset 0x0
DMA BUFFER_LIMIT: 0x40000014, after reset 0x0
by the standard: BUFFER_LIMIT of the two channels at 0x40000094 and 0x400000b4, after reset 0xcc
END
venv "$work/venv" cmsis-svd==0.6
cat >"$work/registers.py" <<'END'
from cmsis_svd import SVDParser


def register(name, offset):
    return f"<register><name>{name}</name><description>d</description><addressOffset>{offset:#x}</addressOffset></register>"


description = f"""<?xml version="1.0" encoding="utf-8"?>
<device schemaVersion="1.3"><vendor>V</vendor><name>D</name><version>1</version><description>d</description>
<addressUnitBits>8</addressUnitBits><width>32</width><size>32</size><access>read-write</access><resetValue>0</resetValue><resetMask>0xFFFFFFFF</resetMask>
<peripherals><peripheral><name>DMA</name><description>d</description><baseAddress>0x40000000</baseAddress>
<addressBlock><offset>0</offset><size>0x400</size><usage>registers</usage></addressBlock>
<registers>{register("ENABLE", 0)}{register("STATUS", 0x14)}
<cluster><dim>2</dim><dimIncrement>0x20</dimIncrement><name>CHANNEL%s</name><description>d</description><addressOffset>0x80</addressOffset>
<resetValue>0xCC</resetValue>{register("CONTROL", 4)}
<cluster><name>BUFFER</name><description>d</description><addressOffset>0x10</addressOffset>{register("LIMIT", 4)}</cluster></cluster>
</registers></peripheral></peripherals></device>"""
open("device.svd", "w").write(description)
for peripheral in SVDParser.for_xml_file("device.svd").get_device().get_peripherals():
    for found in peripheral.get_registers():
        print(f"{peripheral.name} {found.name}: {peripheral.base_address + found.address_offset:#x}, after reset {found.reset_value:#x}")
print("by the standard: BUFFER_LIMIT of the two channels at 0x40000094 and 0x400000b4, after reset 0xcc")
END
(cd "$work" && venv/bin/python -W ignore registers.py) >"$work/out"
compare "$work/out"
