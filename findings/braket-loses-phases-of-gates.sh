#!/usr/bin/env bash
# amazon-braket-default-simulator 1.41.2, qiskit 2.6.1 and qiskit-qasm3-import 0.6.0 (PyPI): programs in OpenQASM 3 with a gate that has a phase (gphase).
# Expected: the phase of a gate has no effect, and by a control (ctrl @) it becomes one that is measured: both give one state, as OpenQASM 3 says.
# Seen: braket's simulator, which Amazon Braket runs on the own machine, loses the phase of a gate that a program defines when it is controlled, without a word, so
# a program measures 0 always where qiskit, and mathematics, measure 1. A phase that is controlled itself is kept, so the same program without the gate is right.
. "$(dirname "$0")/common.sh"
recorded <<'END'
ctrl @ gphase(pi): 1 is measured with 1.00 by qiskit, 1.00 by braket
gate g t { gphase(pi); x t; }: 1 is measured with 1.00 by qiskit, 0.00 by braket
gate g t { gphase(pi / 2); rz(pi) t; }: 1 is measured with 1.00 by qiskit, 0.50 by braket
the same, without the gate: 1 is measured with 1.00 by qiskit, 1.00 by braket
gate g(a) t { gphase(a); x t; }: 1 is measured with 1.00 by qiskit, 0.00 by braket
ctrl @ inv @ g: 1 is measured with 1.00 by qiskit, 0.00 by braket
END
venv "$work/venv" amazon-braket-default-simulator==1.41.2 qiskit==2.6.1 qiskit-qasm3-import==0.6.0 numpy==2.4.6
cat >"$work/phases.py" <<'END'
import logging

from braket.default_simulator import StateVectorSimulator
from braket.ir.openqasm import Program
from qiskit import qasm3
from qiskit.quantum_info import Statevector

logging.disable(logging.WARNING)
head = "OPENQASM 3.0;\n"
programs = {
    "ctrl @ gphase(pi)": "h q[0]; ctrl @ gphase(pi) q[0]; h q[0]; x q[1];",
    "gate g t { gphase(pi); x t; }": "gate g t { gphase(pi); x t; } h q[0]; ctrl @ g q[0], q[1]; ctrl @ x q[0], q[1]; h q[0]; x q[1];",
    "gate g t { gphase(pi / 2); rz(pi) t; }": "gate g t { gphase(pi / 2); rz(pi) t; } x q[1]; h q[0]; ctrl @ g q[0], q[1]; h q[0];",
    "the same, without the gate": "x q[1]; h q[0]; ctrl @ gphase(pi / 2) q[0]; ctrl @ rz(pi) q[0], q[1]; h q[0];",
    "gate g(a) t { gphase(a); x t; }": "gate g(a) t { gphase(a); x t; } h q[0]; ctrl @ g(pi) q[0], q[1]; ctrl @ x q[0], q[1]; h q[0]; x q[1];",
    "ctrl @ inv @ g": "gate g t { gphase(pi); x t; } h q[0]; ctrl @ inv @ g q[0], q[1]; ctrl @ x q[0], q[1]; h q[0]; x q[1];",
}


def by_qiskit(body):
    circuit = qasm3.loads(f'{head}include "stdgates.inc";\nqubit[2] q;\n{body}')
    return sum(Statevector(circuit).probabilities([0])[1:])


def by_braket(body):
    source = f"{head}qubit[2] q;\n{body}\n#pragma braket result probability q[0]"
    return StateVectorSimulator().run(Program(source=source), shots=0).resultTypes[0].value[1]


for name, body in programs.items():
    print(f"{name}: 1 is measured with {abs(by_qiskit(body)):.2f} by qiskit, {abs(by_braket(body)):.2f} by braket")
END
"$work/venv/bin/python" -W ignore "$work/phases.py" >"$work/out"
compare "$work/out"
