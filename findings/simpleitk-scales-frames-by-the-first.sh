#!/usr/bin/env bash
# SimpleITK 2.5.7, dcm2niix 1.0.20260724, nibabel 5.4.2 and pydicom 3.0.2 (PyPI): a PET image in one file (Enhanced PET), whose frames have a scale each
# (Rescale Slope), as the activity differs. Then a distribution of dose (RT Dose) in steps of Dose Grid Scaling, whose frames are 3 and 6 mm apart.
# Expected: each frame times its scale; dose in grays, with each frame at its place or an error.
# Seen: SimpleITK scales all frames by the slope of the first, so 2000 is 500; dcm2niix has it right. Neither applies the scale of dose, so 1 Gy is 1000;
# for SimpleITK the frames are 3 mm apart all along, for dcm2niix 1 mm, so the last dose lies 3 or 7 mm away. All with success.
. "$(dirname "$0")/common.sh"
recorded <<'END'
PT, 1000 * 0.5, 0.25 and 2, 6 mm up: 500 500 500 by SimpleITK, the last 6 mm up; 500 250 2000 by dcm2niix, 6 mm
RTDOSE, 1, 2 and 3 Gy, 9 mm up: 1000 2000 3000 by SimpleITK, the last 6 mm up; 1000 2000 3000 by dcm2niix, 2 mm
END
venv "$work/venv" SimpleITK==2.5.7 dcm2niix==1.0.20260724 nibabel==5.4.2 pydicom==3.0.2 numpy==2.4.6
cat >"$work/frames.py" <<'END'
import pathlib
import subprocess

import nibabel
import numpy
import SimpleITK
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import ExplicitVRLittleEndian

HEIGHTS = [0, 3, 9]


def group(**fields):
    item = Dataset()
    for name, value in fields.items():
        setattr(item, name, value)
    return item


def image(modality, storage, frames, **fields):
    meta = group(MediaStorageSOPClassUID=storage, MediaStorageSOPInstanceUID="1.2.3.4", TransferSyntaxUID=ExplicitVRLittleEndian)
    item = group(
        SOPClassUID=storage, SOPInstanceUID="1.2.3.4", StudyInstanceUID="1.2.3", SeriesInstanceUID="1.2.3.5", FrameOfReferenceUID="1.2.3.9",
        Modality=modality, PatientName="A", PatientID="1", StudyID="1", SeriesNumber=1, InstanceNumber=1, StudyDate="20260101", StudyTime="000000",
        Manufacturer="", NumberOfFrames=len(frames), Rows=2, Columns=2, SamplesPerPixel=1, PhotometricInterpretation="MONOCHROME2",
        BitsAllocated=16, BitsStored=16, HighBit=15, PixelRepresentation=0, **fields,
    )  # fmt: skip
    item.file_meta = FileMetaDataset(meta)
    item.PixelData = numpy.repeat(numpy.array(frames, "<u2"), 4).tobytes()
    item["PixelData"].VR = "OW"
    pathlib.Path(modality).mkdir()
    item.save_as(f"{modality}/image.dcm", enforce_file_format=True)


def show(modality, note):
    read = SimpleITK.ReadImage(f"{modality}/image.dcm")
    last = read.TransformIndexToPhysicalPoint((0, 0, len(HEIGHTS) - 1))[2]
    values = " ".join(f"{value:g}" for value in SimpleITK.GetArrayFromImage(read)[:, 0, 0])
    print(f"{modality}, {note}: {values} by SimpleITK, the last {last:g} mm up", end="; ")
    subprocess.run(["venv/bin/dcm2niix", "-b", "n", "-f", "image", modality], check=True, capture_output=True)
    read = nibabel.load(f"{modality}/image.nii")
    last = (read.affine @ [0, 0, len(HEIGHTS) - 1, 1])[2]
    print(f"{' '.join(f'{value:g}' for value in read.get_fdata()[0, 0])} by dcm2niix, {last:g} mm")


slopes = [0.5, 0.25, 2]
axes, plane = group(ImageOrientationPatient=[1, 0, 0, 0, 1, 0]), group(PixelSpacing=[2, 2], SliceThickness=3)
organization = "1.2.3.77"
image(
    "PT", "1.2.840.10008.5.1.4.1.1.130", [1000, 1000, 1000], ImageType=["ORIGINAL", "PRIMARY", "VOLUME", "NONE"],
    DimensionOrganizationSequence=[group(DimensionOrganizationUID=organization)],
    DimensionIndexSequence=[group(DimensionIndexPointer=0x00200032, FunctionalGroupPointer=0x00209113, DimensionOrganizationUID=organization)],
    SharedFunctionalGroupsSequence=[group(PixelMeasuresSequence=[plane], PlaneOrientationSequence=[axes])],
    PerFrameFunctionalGroupsSequence=[
        group(
            FrameContentSequence=[group(DimensionIndexValues=[number + 1], StackID="1", InStackPositionNumber=number + 1)],
            PlanePositionSequence=[group(ImagePositionPatient=[0, 0, 3 * number])],
            PixelValueTransformationSequence=[group(RescaleIntercept=0, RescaleSlope=slope, RescaleType="US")],
        )
        for number, slope in enumerate(slopes)
    ],
)  # fmt: skip
show("PT", "1000 * 0.5, 0.25 and 2, 6 mm up")
image(
    "RTDOSE", "1.2.840.10008.5.1.4.1.1.481.2", [1000, 2000, 3000], ImagePositionPatient=[0, 0, 0], ImageOrientationPatient=[1, 0, 0, 0, 1, 0],
    PixelSpacing=[2, 2], SliceThickness=None, FrameIncrementPointer=0x3004000C, GridFrameOffsetVector=HEIGHTS, DoseUnits="GY", DoseType="PHYSICAL",
    DoseSummationType="PLAN", DoseGridScaling=0.001,
)  # fmt: skip
show("RTDOSE", "1, 2 and 3 Gy, 9 mm up")
END
(cd "$work" && venv/bin/python -W ignore frames.py) >"$work/out"
compare "$work/out"
