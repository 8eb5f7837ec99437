#!/usr/bin/env bash
# mlflow-skinny 3.17.2 and importlib-metadata 9.1.0 (PyPI), with a host wheel and device wheels that lay archives into its directory, by extras.
# Expected: the requirements that MLflow infers for a model name the package that the model imports, which is the host wheel.
# Seen: MLflow asks which distributions have files of the imported module, and takes out those that another of them requires. All device wheels have
# such files, and require the host: so the requirements name the device wheels of the machine where the model was saved, and not the host. A machine
# with another GPU installs the host with kernels for the first one only. `packages_distributions` names device wheels since Python 3.12, and in the
# module for older ones that MLflow uses.
. "$(dirname "$0")/common.sh"
recorded <<'END'
installed: hostpkg; requirements of the model: hostpkg==1.0
installed: hostpkg[device-gfx942]; requirements of the model: amd-hostpkg-device-gfx942==1.0
installed: hostpkg[device-gfx942,device-gfx1100]; requirements of the model: amd-hostpkg-device-gfx1100==1.0 amd-hostpkg-device-gfx942==1.0
END
venv "$work/venv" mlflow-skinny==3.17.2 importlib-metadata==9.1.0 cloudpickle==3.1.3 pandas==3.1.1 numpy==2.4.6
python3 -c 'import sys, wheels; wheels.release(sys.argv[1], "gfx942", "gfx1100")' "$work/dist"
unset PYTHONPATH
for requirement in 'hostpkg' 'hostpkg[device-gfx942]' 'hostpkg[device-gfx942,device-gfx1100]'; do
    "$work/venv/bin/pip" install --quiet --no-index --find-links "$work/dist" "$requirement" >&2
    "$work/venv/bin/python" - "$work/model" >&2 <<'END'
import sys

import hostpkg
import mlflow.pyfunc


class Model(mlflow.pyfunc.PythonModel):
    def predict(self, context, model_input):
        return hostpkg.__name__


mlflow.pyfunc.save_model(sys.argv[1], python_model=Model(), signature=False)
END
    echo "installed: $requirement; requirements of the model:" $(grep hostpkg "$work/model/requirements.txt" | sort)
    rm -r "$work/model"
done >"$work/out"
compare "$work/out"
