"""Made from_python.safetensors, with safetensors 0.8.0 and NumPy 2.4.6: pip install safetensors numpy"""
import pathlib

import numpy
from safetensors.numpy import save_file

save_file(
    {
        "embedding.weight": numpy.array([[1.5, -2.0, 0.25], [3.0, 1e-8, -0.0]], numpy.float32),
        "half": numpy.array([1.0, 65504.0, -6.1e-05, 5.96e-08], numpy.float16),
        "double": numpy.array(0.1, numpy.float64),
        "steps": numpy.array([1, -1, 2**62], numpy.int64),
        "mask": numpy.array([[True, False], [False, True]]),
        "labels": numpy.array([0, 9, 255], numpy.uint8),
        "nothing": numpy.empty((0, 7), numpy.float32),
    },
    pathlib.Path(__file__).with_name("from_python.safetensors"),
    metadata={"format": "np", "note": "written by Python, read by halfstep: µ"},
)
