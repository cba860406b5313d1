"""exchange.py <program> <folder>: Python's safetensors and halfstep read each other's files.

Exit code 77: the package is not installed, and the test is skipped.
"""
import pathlib
import subprocess
import sys

try:
    import numpy
    import safetensors
    from safetensors.numpy import load_file, save_file
except ImportError as missing:
    print(f"{missing}: the exchange with Python's safetensors is skipped.")
    sys.exit(77)

program, folder = sys.argv[1], pathlib.Path(sys.argv[2])

TYPES = {
    "F64": numpy.float64, "F32": numpy.float32, "F16": numpy.float16, "I64": numpy.int64, "I32": numpy.int32,
    "I16": numpy.int16, "I8": numpy.int8, "U8": numpy.uint8, "U16": numpy.uint16, "U32": numpy.uint32,
    "U64": numpy.uint64, "BOOL": numpy.bool_,
}
ORDER = ["F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U8", "U16", "U32", "U64", "BOOL"]


def dtype_size(name):
    return 2 if name == "BF16" else numpy.dtype(TYPES[name]).itemsize


def described(name, dtype, shape, data):
    return f"tensor {name} {dtype} [{''.join(f'{size},' for size in shape)}] {data.hex()}"


def bytes_that_were_written():
    """What `exchange write` writes, made again: name -> (type, shape, bytes)."""
    tensors, value = {}, 0

    def add(name, dtype, shape):
        nonlocal value
        data = bytearray()
        for _ in range(dtype_size(dtype) * int(numpy.prod(shape, dtype=int))):
            value += 1
            data.append(value % 2 if dtype == "BOOL" else value % 256)
        tensors[name] = (dtype, shape, bytes(data))

    for dtype in ORDER:
        add(f"layer.{dtype}", dtype, (2, 3))
        add(f"scalar.{dtype}", dtype, ())
        add(f"empty.{dtype}", dtype, (4, 0))
    add('name with "quotes", µ and 漢', "U8", (5,))
    return tensors


def python_reads_what_halfstep_writes():
    path = folder / "from_halfstep.safetensors"
    subprocess.run([program, "write", path], check=True)
    # The package's own parser, whatever array library it hands the bytes to: bfloat16 is none of numpy's types.
    found = dict(safetensors.deserialize(path.read_bytes()))
    expected = bytes_that_were_written()
    assert found.keys() == expected.keys(), found.keys() ^ expected.keys()
    for name, (dtype, shape, data) in expected.items():
        assert found[name]["dtype"] == dtype, name
        assert tuple(found[name]["shape"]) == shape, name
        assert bytes(found[name]["data"]) == data, name
    with safetensors.safe_open(path, framework="numpy") as file:
        metadata = dict(file.metadata())
        for name, (dtype, shape, data) in expected.items():
            if dtype != "BF16":
                array = numpy.frombuffer(data, TYPES[dtype]).reshape(shape)
                numpy.testing.assert_array_equal(file.get_tensor(name), array, err_msg=name)
    assert metadata["text"] == "line\nbreak, µ" and metadata["json"] == '{"a":[1,2]}', metadata
    assert "halfstep.checksums" in metadata and "halfstep.header_checksum" in metadata, metadata


def halfstep_reads_what_python_writes():
    path = folder / "from_python.safetensors"
    random = numpy.random.default_rng(3)
    arrays = {}
    for dtype, kind in TYPES.items():
        data = random.integers(0, 2 if dtype == "BOOL" else 256, 6 * dtype_size(dtype), numpy.uint8).tobytes()
        arrays[f"layer.{dtype}"] = numpy.frombuffer(data, kind).reshape(2, 3)
        arrays[f"scalar.{dtype}"] = numpy.frombuffer(data[: dtype_size(dtype)], kind).reshape(())
        arrays[f"empty.{dtype}"] = numpy.empty((4, 0), kind)
    names = {numpy.dtype(kind): name for name, kind in TYPES.items()}
    for metadata in (None, {"text": "µ and \"quotes\""}):
        save_file(arrays, path, metadata)
        expected = [described(name, names[array.dtype], array.shape, array.tobytes()) for name, array in arrays.items()]
        expected += [f"metadata {key}={value}" for key, value in (metadata or {}).items()]
        found = subprocess.run([program, "read", path], check=True, capture_output=True, encoding="utf-8").stdout
        assert set(found.splitlines()) == set(expected), set(found.splitlines()) ^ set(expected)


def a_file_that_python_has_taken_over_keeps_its_checksums():
    path, copy = folder / "for_numpy.safetensors", folder / "copy.safetensors"
    subprocess.run([program, "write_numpy", path], check=True)
    tensors = load_file(path)
    with safetensors.safe_open(path, framework="numpy") as file:
        metadata = dict(file.metadata())
    save_file(tensors, copy, metadata)
    assert path.read_bytes() != copy.read_bytes()
    read = [subprocess.run([program, "read", file], check=True, capture_output=True).stdout for file in (path, copy)]
    assert read[0] == read[1]

    metadata["text"] = "changed"
    save_file(tensors, copy, metadata)
    result = subprocess.run([program, "read", copy], capture_output=True, encoding="utf-8")
    assert result.returncode == 1 and "kept the old checksums" in result.stderr, result


python_reads_what_halfstep_writes()
halfstep_reads_what_python_writes()
a_file_that_python_has_taken_over_keeps_its_checksums()
print(f"safetensors {safetensors.__version__} and halfstep read each other's files.")
