"""Runs an expression of WGSL by wgpu, on the first device."""

import struct

import wgpu

STORAGE = wgpu.BufferUsage.STORAGE
device = wgpu.gpu.enumerate_adapters_sync()[0].request_device_sync()


def run(body, *values):
    """What a kernel leaves in y, which starts as the values (x) are; its body is given."""
    source = device.create_buffer_with_data(data=struct.pack(f"<{len(values)}f", *values), usage=STORAGE)
    sink = device.create_buffer(size=4, usage=STORAGE | wgpu.BufferUsage.COPY_SRC)
    code = f"""@group(0) @binding(0) var<storage> x: array<f32>;
        @group(0) @binding(1) var<storage, read_write> y: f32;
        @compute @workgroup_size(1) fn kernel() {{ y = x[0]; {body} }}"""
    stage = {"module": device.create_shader_module(code=code), "entry_point": "kernel"}
    pipeline = device.create_compute_pipeline(layout="auto", compute=stage)
    entries = [{"binding": place, "resource": {"buffer": buffer}} for place, buffer in enumerate((source, sink))]
    group = device.create_bind_group(layout=pipeline.get_bind_group_layout(0), entries=entries)
    encoder = device.create_command_encoder()
    work = encoder.begin_compute_pass()
    work.set_pipeline(pipeline)
    work.set_bind_group(0, group)
    work.dispatch_workgroups(1)
    work.end()
    device.queue.submit([encoder.finish()])
    return f"{struct.unpack('<f', device.queue.read_buffer(sink))[0]:.6g}"
