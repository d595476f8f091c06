/** Files that call themselves ONNX, written field by field. */
import { execFileSync } from 'node:child_process';
import { link, symlink, writeFile } from 'node:fs/promises';
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import { type Entry, entry, repeated, sparse } from './entry.ts';

type Message = Uint8Array;
type Value = number | bigint | string | Message;

/** A message from its fields: numbers as varints, texts and messages by length. */
const message = (...list: readonly (readonly [number: number, value: Value])[]): Message => messageOf(list);

function messageOf(list: readonly (readonly [number: number, value: Value])[]): Message {
  const writer = new BinaryWriter();
  for (const [number, value] of list) {
    if (typeof value === 'number' || typeof value === 'bigint') writer.tag(number, WireType.Varint).int64(value);
    else if (typeof value === 'string') writer.tag(number, WireType.LengthDelimited).string(value);
    else writer.tag(number, WireType.LengthDelimited).bytes(value);
  }
  return writer.finish();
}

const floats = (count: number): Message => new Uint8Array(4 * count);
const tensor = (name: string, dims: readonly (number | bigint)[], ...rest: [number, Value][]): Message =>
  message(...dims.map((dim): [number, Value] => [1, dim]), [2, 1], [8, name], ...rest);
const weight = tensor('w', [2, 3], [9, floats(6)]);
const port = (name: string, dims: readonly (number | string | bigint)[] = ['n', 3], type = 1): Message =>
  message(
    [1, name],
    [
      2,
      message([
        1,
        message(
          [1, type],
          [2, message(...dims.map((dim): [number, Value] => [1, message([typeof dim === 'string' ? 2 : 1, dim])]))],
        ),
      ]),
    ],
  );
const node = (op: string, inputs: string[], outputs: string[], ...rest: [number, Value][]): Message =>
  message(
    ...inputs.map((name): [number, Value] => [1, name]),
    ...outputs.map((name): [number, Value] => [2, name]),
    [4, op],
    ...rest,
  );
const add = node('Add', ['x', 'b'], ['y']);
const bias = tensor('b', [3], [9, floats(3)]);
const opset = (domain = '', version = 18): Message => message([1, domain], [2, version]);

type Parts = {
  nodes?: Message[];
  tensors?: Message[];
  inputs?: Message[];
  outputs?: Message[];
  more?: [number, Value][];
};
const graph = ({
  nodes = [add],
  tensors = [bias],
  inputs = [port('x')],
  outputs = [port('y')],
  more = [],
}: Parts = {}): Message =>
  message(
    ...nodes.map((one): [number, Value] => [1, one]),
    [2, 'graph'],
    ...tensors.map((one): [number, Value] => [5, one]),
    ...inputs.map((one): [number, Value] => [11, one]),
    ...outputs.map((one): [number, Value] => [12, one]),
    ...more,
  );
const model = (body: Message, ...more: [number, Value][]): Message =>
  message([1, 9], [2, 'test'], [7, body], [8, opset()], ...more);
const of = (parts: Parts, ...more: [number, Value][]): Message => model(graph(parts), ...more);

const external = (location: string, length?: string): Message =>
  tensor(
    'b',
    [3],
    [13, message([1, 'location'], [2, location])],
    ...(length ? ([[13, message([1, 'length'], [2, length])]] as [number, Value][]) : []),
    [14, 1],
  );
const outside = (location: string, length?: string): Message => of({ tensors: [external(location, length)] });

/** A graph in the attribute of a node in a graph …, as deep as asked. */
function nested(depth: number): Message {
  let inner = graph({ nodes: [node('Identity', ['x'], ['end'])], tensors: [], inputs: [], outputs: [port('end')] });
  for (let i = 0; i < depth; i++) {
    const attribute = message([1, 'then_branch'], [6, inner], [20, 5]);
    inner = graph({
      nodes: [node('If', ['x'], [`y${i}`], [5, attribute])],
      tensors: [],
      inputs: [],
      outputs: [port(`y${i}`)],
    });
  }
  return of({ nodes: [node('If', ['x'], ['y'], [5, message([1, 'then_branch'], [6, inner], [20, 5])])], tensors: [] });
}

export const soundOnnx = of({});
const latin = (text: string): Uint8Array => Buffer.from(text, 'latin1');
const DAMAGED = 'checkpoint_damaged';
const NO = 'model_unsupported';
const badText = message(
  [1, 9],
  [
    7,
    message(
      [1, message([1, new Uint8Array([0xc3, 0x28])], [2, 'y'], [4, 'Identity'])],
      [11, port('x')],
      [12, port('y')],
    ),
  ],
  [8, opset()],
);

/** The beginning of a model whose graph claims `bytes` bytes. */
function claiming(bytes: number): Uint8Array {
  const writer = new BinaryWriter();
  writer.tag(1, WireType.Varint).int64(9).tag(7, WireType.LengthDelimited).uint32(bytes);
  return writer.finish();
}

export const onnxCorpus: readonly Entry[] = [
  entry('sound', soundOnnx, 'read'),
  entry('sound: an initializer that is also an input', of({ inputs: [port('x'), port('b', [3])] }), 'read'),
  entry('sound: values as float_data', of({ tensors: [tensor('b', [3], [4, floats(3)])] }), 'read'),
  entry(
    'sound: operator of onnxruntime',
    of({ nodes: [node('Gelu', ['x'], ['y'], [7, 'com.microsoft'])] }, [8, opset('com.microsoft', 1)]),
    'read',
  ),
  entry('sound: graphs three deep', nested(3), 'read'),
  entry('sound: a node that leaves an input out', of({ nodes: [node('Clip', ['x', '', 'b'], ['y'])] }), 'read'),
  entry('empty', '', NO, /empty/),
  entry('external data beside it', outside('weights.bin'), NO, /external data/),
  entry('external data with ..', outside('../../../../etc/passwd'), NO, /external data/),
  entry('external data with an absolute path', outside('/etc/passwd'), NO, /external data/),
  entry('external data of 2^60 bytes', outside('w.bin', String(2 ** 60)), NO, /external data/),
  entry(
    'external data through a symbolic link',
    async (path) => {
      await symlink('/etc/passwd', `${path}.bin`);
      await writeFile(path, outside('link.bin'));
    },
    NO,
    /external data/,
  ),
  entry(
    'external data through a hard link',
    async (path) => {
      await writeFile(`${path}.secret`, 'secret');
      await link(`${path}.secret`, `${path}.hard`);
      await writeFile(path, outside('hard.bin'));
    },
    NO,
    /external data/,
  ),
  entry('external data given only by its location', of({ tensors: [tensor('b', [3], [14, 1])] }), NO, /external data/),
  entry(
    'external data beside values',
    of({ tensors: [tensor('b', [3], [9, floats(3)], [13, message([1, 'location'], [2, 'x'])])] }),
    NO,
    /external data/,
  ),
  entry(
    'external data in a node',
    of({ nodes: [node('Constant', [], ['y'], [5, message([1, 'value'], [5, external('x')])])] }),
    NO,
    /external data/,
  ),
  entry('sparse initializer', of({ more: [[15, message([1, weight], [2, weight], [3, 6])]] }), NO, /sparse/),
  entry(
    'sparse value in a node',
    of({ nodes: [node('Constant', [], ['y'], [5, message([1, 'sparse_value'], [22, message([1, weight])])])] }),
    NO,
    /sparse/,
  ),
  entry(
    'segment of a tensor',
    of({ tensors: [tensor('b', [3], [3, message([1, 0], [2, 3])], [9, floats(3)])] }),
    NO,
    /segment/,
  ),
  entry('huge dimensions', of({ tensors: [tensor('b', [2 ** 40, 2 ** 40], [9, floats(3)])] }), DAMAGED, /shape/),
  entry(
    'dimensions that overflow to what fits',
    of({ tensors: [tensor('b', [4294967296, 4294967296], [9, floats(0)])] }),
    DAMAGED,
    /shape/,
  ),
  entry('a negative dimension', of({ tensors: [tensor('b', [-3], [9, floats(3)])] }), DAMAGED, /shape/),
  entry('a dimension of 2^63 - 1', of({ tensors: [tensor('b', [2n ** 63n - 1n], [9, floats(3)])] }), DAMAGED, /shape/),
  entry('fewer values than the shape', of({ tensors: [tensor('b', [4], [9, floats(3)])] }), DAMAGED, /holds 12/),
  entry('more values than the shape', of({ tensors: [tensor('b', [2], [9, floats(3)])] }), DAMAGED, /holds 12/),
  entry('no values', of({ tensors: [tensor('b', [3])] }), DAMAGED, /nothing/),
  entry('values twice', of({ tensors: [tensor('b', [3], [9, floats(3)], [9, floats(3)])] }), DAMAGED, /twice/),
  entry('values in two fields', of({ tensors: [tensor('b', [3], [9, floats(3)], [4, floats(3)])] }), DAMAGED, /holds/),
  entry(
    'values in the field of another type',
    of({ tensors: [tensor('b', [3], [7, new Uint8Array(3)])] }),
    DAMAGED,
    /field 7/,
  ),
  entry('unknown type', of({ tensors: [message([1, 3], [2, 99], [8, 'b'], [9, floats(3)])] }), DAMAGED, /type 99/),
  entry(
    '10,000 dimensions',
    of({ tensors: [tensor('b', Array(10_000).fill(1), [9, floats(1)])] }),
    DAMAGED,
    /64 dimensions/,
  ),
  entry('an input of 2^62 values', of({ inputs: [port('x', [2 ** 31, 2 ** 31])] }), DAMAGED, /shape/),
  entry(
    'a cycle',
    of({ nodes: [node('Add', ['x', 'v'], ['u']), node('Add', ['u', 'b'], ['v']), node('Identity', ['v'], ['y'])] }),
    DAMAGED,
    /cycle/,
  ),
  entry('a node that feeds itself', of({ nodes: [node('Add', ['x', 'y'], ['y'])] }), DAMAGED, /cycle/),
  entry('an input nobody makes', of({ nodes: [node('Add', ['x', 'nobody'], ['y'])] }), DAMAGED, /"nobody"/),
  entry('an output nobody makes', of({ outputs: [port('z')] }), DAMAGED, /"z"/),
  entry('a name made twice', of({ nodes: [add, add] }), DAMAGED, /twice/),
  entry('a tensor twice', of({ tensors: [bias, bias] }), DAMAGED, /twice/),
  entry(
    'operator of another domain',
    of({ nodes: [node('Run', ['x'], ['y'], [7, 'evil.ops'])] }, [8, opset('evil.ops', 1)]),
    NO,
    /evil.ops.Run/,
  ),
  entry(
    'operator of a domain not imported',
    of({ nodes: [node('Gelu', ['x'], ['y'], [7, 'com.microsoft'])] }),
    DAMAGED,
    /does not import/,
  ),
  entry('operator without a name', of({ nodes: [node('', ['x'], ['y'])] }), DAMAGED, /operator set/),
  entry('functions of its own', of({}, [25, message([1, 'f'])]), NO, /functions/),
  entry('training information', of({}, [20, message([1, graph()])]), NO, /training/),
  entry('graphs nested 9 deep', nested(9), NO, /8 deep/),
  entry('graphs nested 500 deep', nested(500), NO, /8 deep/),
  entry('two graphs', of({}, [7, graph()]), DAMAGED, /two graphs/),
  entry('no graph', message([1, 9], [8, opset()]), DAMAGED, /no graph/),
  entry('no operator sets', message([1, 9], [7, graph()]), DAMAGED, /which version/),
  entry('a name that is not UTF-8', badText, DAMAGED, /UTF-8/),
  entry(
    'a name of a megabyte',
    of({ nodes: [node('Identity', ['x'], ['y'], [3, 'n'.repeat(1_000_000)])] }),
    DAMAGED,
    /1000000 bytes/,
  ),
  entry('a sequence as input', of({ inputs: [message([1, 'x'], [2, message([4, message()])])] }), NO, /not a tensor/),
  ...[3, 20, soundOnnx.length >> 1, soundOnnx.length - 1].map((cut) =>
    entry(`cut after ${cut} bytes`, soundOnnx.slice(0, cut), DAMAGED),
  ),
  entry('a graph of 2 GB that is not there', claiming(2 ** 31 - 1), DAMAGED, /beyond the end/),
  entry('3 GB of nothing', sparse(soundOnnx, 3e9), NO, /at most/),
  entry('1 GB of nothing after it', sparse(soundOnnx, 1e9), DAMAGED, /number 0/),
  entry('a number without end', latin(`\x08${'\xff'.repeat(40)}`), DAMAGED, /no end/),
  entry('groups, long gone', latin('\x08\x09\x3b\x3c'), DAMAGED, /kind 3/),
  entry('5 million tiny fields', repeated(latin('\x08\x09'), '\x28\x01', 5_000_000), DAMAGED, /more fields/),
  entry('300,000 graphs', repeated(latin('\x08\x09'), '\x3a\x00', 300_000), DAMAGED, /two graphs/),
  entry(
    '200,000 nodes',
    async (path) => {
      const nodes = Array.from({ length: 200_000 }, (_, i): [number, Value] => [1, node('Identity', ['x'], [`v${i}`])]);
      await writeFile(path, model(messageOf([...nodes, [11, port('x')]])));
    },
    DAMAGED,
    /100000 nodes/,
  ),
  entry('pickle', latin('\x80\x02cposix\nsystem\nq\x00.'), NO, /a pickle/),
  entry('PyTorch file', latin(`PK\x03\x04${'\0'.repeat(26)}archive/data.pkl`), NO, /PyTorch/),
  entry('a pipe', async (path) => void execFileSync('mkfifo', [path]), DAMAGED, /regular file/),
];
