/**
 * Writes an ONNX model as bytes. The only file that knows protobuf.
 * Field numbers are those of onnx.proto3 (ModelProto, GraphProto, NodeProto, AttributeProto, TensorProto, ValueInfoProto).
 */
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import type { OnnxAttribute, OnnxGraph, OnnxNode, OnnxPort, OnnxTensor } from './lower.ts';

const IR_VERSION = 9;
const OPSETS = [
  ['', 18],
  ['com.microsoft', 1],
] as const;
const ELEMENT_TYPE = { float32: 1, int32: 6, int64: 7 } as const;

/** The bytes of an ONNX file that holds `graph`. */
export function writeOnnx(graph: OnnxGraph): Uint8Array {
  const writer = new BinaryWriter();
  writer.tag(1, WireType.Varint).int64(IR_VERSION);
  message(writer, 7, () => {
    for (const node of graph.nodes) message(writer, 1, () => writeNode(writer, node));
    writer.tag(2, WireType.LengthDelimited).string('troupe');
    for (const tensor of graph.constants) message(writer, 5, () => writeTensor(writer, tensor));
    for (const port of graph.inputs) message(writer, 11, () => writePort(writer, port));
    for (const port of graph.outputs) message(writer, 12, () => writePort(writer, port));
  });
  for (const [domain, version] of OPSETS) {
    message(writer, 8, () => {
      writer.tag(1, WireType.LengthDelimited).string(domain);
      writer.tag(2, WireType.Varint).int64(version);
    });
  }
  return writer.finish();
}

function message(writer: BinaryWriter, field: number, body: () => void): void {
  writer.tag(field, WireType.LengthDelimited).fork();
  body();
  writer.join();
}

function writeNode(writer: BinaryWriter, node: OnnxNode): void {
  for (const name of node.inputs) writer.tag(1, WireType.LengthDelimited).string(name);
  for (const name of node.outputs) writer.tag(2, WireType.LengthDelimited).string(name);
  writer.tag(3, WireType.LengthDelimited).string(`${node.outputs[0]}_node`);
  writer.tag(4, WireType.LengthDelimited).string(node.op);
  for (const [name, attribute] of Object.entries(node.attributes)) {
    message(writer, 5, () => writeAttribute(writer, name, attribute));
  }
  if (node.domain !== '') writer.tag(7, WireType.LengthDelimited).string(node.domain);
}

function writeAttribute(writer: BinaryWriter, name: string, attribute: OnnxAttribute): void {
  writer.tag(1, WireType.LengthDelimited).string(name);
  const kind = (type: number) => writer.tag(20, WireType.Varint).int32(type);
  if ('float' in attribute) {
    writer.tag(2, WireType.Bit32).float(attribute.float);
    kind(1);
  } else if ('int' in attribute) {
    writer.tag(3, WireType.Varint).int64(attribute.int);
    kind(2);
  } else if ('text' in attribute) {
    writer.tag(4, WireType.LengthDelimited).bytes(new TextEncoder().encode(attribute.text));
    kind(3);
  } else {
    for (const value of attribute.ints) writer.tag(8, WireType.Varint).int64(value);
    kind(7);
  }
}

function writeTensor(writer: BinaryWriter, { name, dims, data }: OnnxTensor): void {
  for (const dim of dims) writer.tag(1, WireType.Varint).int64(dim);
  const type = data instanceof Float32Array ? ELEMENT_TYPE.float32 : ELEMENT_TYPE.int64;
  writer.tag(2, WireType.Varint).int32(type);
  writer.tag(8, WireType.LengthDelimited).string(name);
  writer.tag(9, WireType.LengthDelimited).bytes(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
}

function writePort(writer: BinaryWriter, { name, type, shape }: OnnxPort): void {
  writer.tag(1, WireType.LengthDelimited).string(name);
  message(writer, 2, () => {
    message(writer, 1, () => {
      writer.tag(1, WireType.Varint).int32(ELEMENT_TYPE[type]);
      message(writer, 2, () => {
        for (const dim of shape) {
          message(writer, 1, () => {
            if (typeof dim === 'number') writer.tag(1, WireType.Varint).int64(dim);
            else writer.tag(2, WireType.LengthDelimited).string(dim);
          });
        }
      });
    });
  });
}
