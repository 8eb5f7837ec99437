#!/usr/bin/env bash
# mne 1.13.2 and pyedflib 0.1.42 (PyPI): recordings of a brain (EDF) whose header states another unit than uV, and one of BrainVision.
# Expected: mne gives volts, or names a unit that it does not know: 100 nV are 1e-7 V, as EDF+ allows each prefix of SI.
# Seen: of EDF, mne knows V, mV and uV in some spellings, and takes all else for volts, without a word: 100 nV and 100 pV are 100 V, as are 100 "uv" and
# 100 "UV", of which it says that they were microvolts. Of BrainVision it reads nV as nanovolts.
. "$(dirname "$0")/common.sh"
recorded <<'END'
100 V (100 V by pyedflib): 100 V by mne, from V
100 mV (100 mV by pyedflib): 0.1 V by mne, from mV
100 uV (100 uV by pyedflib): 0.0001 V by mne, from µV
100 nV (100 nV by pyedflib): 100 V by mne, from nV
100 pV (100 pV by pyedflib): 100 V by mne, from pV
100 uv (100 uv by pyedflib): 100 V by mne, from µV
100 UV (100 UV by pyedflib): 100 V by mne, from µV
100 mv (100 mv by pyedflib): 100 V by mne, from mv
100 uV (BrainVision): 0.0001 V by mne, from µV
100 nV (BrainVision): 1e-07 V by mne, from nV
END
venv "$work/venv" mne==1.13.2 pyedflib==0.1.42 numpy==2.4.6
cat >"$work/units.py" <<'END'
import mne
import numpy
import pyedflib

mne.set_log_level("WARNING")


def edf(unit):
    fields = [("0", 8), ("X", 80), ("X", 80), ("01.01.20", 8), ("00.00.00", 8), (512, 8), ("", 44), (1, 8), (1, 8), (1, 4)]
    fields += [("EEG Fp1", 16), ("", 80), (unit, 8), (-1000, 8), (1000, 8), (-1000, 8), (1000, 8), ("", 80), (100, 8), ("", 32)]
    header = "".join(str(text).ljust(width) for text, width in fields)
    open("record.edf", "wb").write(header.encode("ascii") + numpy.full(100, 100, "<i2").tobytes())
    with pyedflib.EdfReader("record.edf") as file:
        seen = f"{file.readSignal(0)[0]:g} {file.getPhysicalDimension(0)} by pyedflib"
    return mne.io.read_raw_edf("record.edf"), seen


def brainvision(unit):
    common = "Codepage=UTF-8\nDataFile=record.eeg\n"
    open("record.vmrk", "w").write(f"Brain Vision Data Exchange Marker File, Version 1.0\n[Common Infos]\n{common}[Marker Infos]\n")
    open("record.vhdr", "w").write(
        f"Brain Vision Data Exchange Header File Version 1.0\n[Common Infos]\n{common}MarkerFile=record.vmrk\nDataFormat=BINARY\n"
        "DataOrientation=MULTIPLEXED\nNumberOfChannels=1\nSamplingInterval=1000\n[Binary Infos]\nBinaryFormat=INT_16\n"
        f"[Channel Infos]\nCh1=Fp1,,1,{unit}\n"
    )
    numpy.full(100, 100, "<i2").tofile("record.eeg")
    return mne.io.read_raw_brainvision("record.vhdr"), "BrainVision"


for write, unit in [(edf, unit) for unit in ("V", "mV", "uV", "nV", "pV", "uv", "UV", "mv")] + [(brainvision, "uV"), (brainvision, "nV")]:
    raw, seen = write(unit)
    print(f"100 {unit} ({seen}): {raw.get_data()[0, 0]:g} V by mne, from {' '.join(raw._orig_units.values())}")
END
(cd "$work" && venv/bin/python units.py 2>&1) >"$work/out"
compare "$work/out"
