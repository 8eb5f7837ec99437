#!/usr/bin/env bash
# openvino 2026.4.1 with numpy 2.4.6 (PyPI), on the CPU, with the property CPU_DENORMALS_OPTIMIZATION of a model, which lets it compute
# without denormals.
# Expected: the property holds for the inferences of the model that was compiled with it, in OpenVINO's threads.
# Seen: compile_model sets a mode of the processor for the thread that calls it, and nothing takes it back: from then on, numpy and Python
# itself compute without denormals in this thread and in those that it starts, also in doubles, and with the model deleted. A model without
# the property computes as was set before, so its numbers depend on which other model was compiled, even after it. One that is compiled with
# the property as False resets the mode for all.
. "$(dirname "$0")/common.sh"
recorded <<'END'
at first: half of 1e-39 is 5e-40 by numpy, half of 1e-310 is 5e-311 by numpy and 5e-311 by Python
a model without the property: 5e-40
behind it: half of 1e-39 is 5e-40 by numpy, half of 1e-310 is 5e-311 by numpy and 5e-311 by Python
after the compilation of one with it: half of 1e-39 is 0 by numpy, half of 1e-310 is 0 by numpy and 0 by Python
the model with it: 0, the one without it: 0
in a new thread: half of 1e-39 is 0 by numpy, half of 1e-310 is 0 by numpy and 0 by Python
with the model deleted: half of 1e-39 is 0 by numpy, half of 1e-310 is 0 by numpy and 0 by Python
a model without the property, compiled later: 0
behind it: half of 1e-39 is 0 by numpy, half of 1e-310 is 0 by numpy and 0 by Python
after the compilation of one with it as False: half of 1e-39 is 5e-40 by numpy, half of 1e-310 is 5e-311 by numpy and 5e-311 by Python
END
venv "$work/venv" openvino==2026.4.1 openvino-telemetry==2025.2.0 numpy==2.4.6
cat >"$work/denormals.py" <<'END'
import gc
import threading

import numpy
import openvino

source = openvino.opset13.parameter([1, 64], numpy.float32)
half = openvino.opset13.multiply(source, openvino.opset13.constant(numpy.float32(0.5)))
model = openvino.Model([half], [source], "m")
core = openvino.Core()
tiny = numpy.full((1, 64), 1e-39, numpy.float32)


def compiled(**properties):
    return core.compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": 1, **properties})


def show(when):
    floats = (tiny * numpy.float32(0.5)).flat[0]
    doubles = (numpy.full(64, 1e-310) * 0.5)[0]
    print(f"{when}: half of 1e-39 is {floats:.2g} by numpy, half of 1e-310 is {doubles:.2g} by numpy and {float('1e-310') * 0.5:.2g} by Python")


show("at first")
plain = compiled()
print(f"a model without the property: {plain(tiny)[0].flat[0]:.2g}")
show("behind it")
flushing = compiled(CPU_DENORMALS_OPTIMIZATION=True)
show("after the compilation of one with it")
print(f"the model with it: {flushing(tiny)[0].flat[0]:.2g}, the one without it: {plain(tiny)[0].flat[0]:.2g}")
thread = threading.Thread(target=show, args=["in a new thread"])
thread.start()
thread.join()
del flushing
gc.collect()
show("with the model deleted")
later = compiled()
print(f"a model without the property, compiled later: {later(tiny)[0].flat[0]:.2g}")
show("behind it")
compiled(CPU_DENORMALS_OPTIMIZATION=False)
show("after the compilation of one with it as False")
END
"$work/venv/bin/python" "$work/denormals.py" >"$work/out"
compare "$work/out"
