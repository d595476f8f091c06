/**
 * An ONNX file of a stranger, looked at before any runtime opens it. Taken are self-contained models only: every value
 * inside the file and as large as their shapes require, operators of ONNX and of onnxruntime alone, a graph without cycles.
 * Field numbers are those of onnx.proto3 (ModelProto, GraphProto, NodeProto, AttributeProto, ValueInfoProto).
 */
import { got, TroupeError } from '../../../errors.ts';
import { checkTensor, outsideData } from './onnx-tensor.ts';
import {
  type Budget,
  bytesSource,
  damagedMessage,
  type Field,
  fields,
  type Source,
  text,
  withFileSource,
} from './protobuf-fields.ts';
import { SNIFFED_BYTES, sniffFile } from './sniff.ts';

type OnnxFilePort = {
  readonly name: string;
  /** TensorProto.DataType: 1 is float32, 6 int32, 7 int64, 10 float16. */
  readonly type: number;
  /** A dimension that varies is its name, or null where it has none; null where even the rank is open. */
  readonly shape: readonly (number | string | null)[] | null;
};

export type OnnxFileFacts = {
  readonly inputs: readonly OnnxFilePort[];
  readonly outputs: readonly OnnxFilePort[];
  /** Nodes of the graph and of the graphs inside its nodes. */
  readonly nodes: number;
  /** Names of the operators, sorted; those of onnxruntime with their domain before them. */
  readonly operators: readonly string[];
  /** Version by domain; the domain of ONNX itself is ''. */
  readonly opsets: Readonly<Record<string, number>>;
  /** Values in all initializers. */
  readonly parameters: number;
};

const DOMAINS = ['', 'com.microsoft'];
const MAX_NODES = 100_000;
const MAX_TENSORS = 100_000;
const MAX_DEPTH = 8;
/** What protobuf itself allows; a larger model must have its values elsewhere and is then not self-contained. */
const MAX_BYTES = 2 ** 31 - 1;

type OnnxReading = {
  readonly source: Source;
  readonly budget: Budget;
  readonly opsets: Record<string, number>;
  readonly operators: Set<string>;
  nodes: number;
  tensors: number;
  parameters: number;
};

/**
 * What an ONNX file takes, gives and consists of. Its values are not read, so memory stays flat whatever its size.
 * Throws `not_found`; `checkpoint_damaged` for a file that is cut or contradicts itself; `model_unsupported` for another
 * kind of file, data outside the file, an operator of another domain, and what no exported model needs (functions in
 * the model, sparse tensors, graphs nested more than eight deep).
 */
export const checkOnnxFile = (file: Uint8Array | string): OnnxFileFacts =>
  typeof file === 'string' ? withFileSource(file, check) : check(bytesSource(file));

function check(source: Source): OnnxFileFacts {
  const { kind, says, hint } = sniffFile(source.view(0, Math.min(SNIFFED_BYTES, source.size)));
  if (kind !== 'onnx' && kind !== 'unknown') throw unsupported(`This is not an ONNX file: it is ${says}.`, says, hint);
  if (source.size > MAX_BYTES)
    throw unsupported(`An ONNX file has at most ${MAX_BYTES} bytes.`, `${source.size} bytes`);
  const reading: OnnxReading = {
    source,
    budget: { fields: 2_000_000, text: 16 << 20 },
    opsets: {},
    operators: new Set(),
    nodes: 0,
    tensors: 0,
    parameters: 0,
  };
  let graph: Field | null = null;
  for (const field of fields(source, 0, source.size, reading.budget)) {
    if (field.number === 7) {
      if (graph) throw damagedMessage('it has two graphs');
      graph = message(field);
    } else if (field.number === 8) readOpset(reading, message(field));
    else if (field.number === 20) throw unsupported('This ONNX file carries training information.', 'training_info');
    else if (field.number === 25) throw unsupported('This ONNX file defines functions of its own.', 'functions');
  }
  if (!graph) throw damagedMessage('it has no graph');
  if (reading.opsets[''] === undefined) throw damagedMessage('it does not say which version of ONNX it needs');
  const ports = checkGraph(reading, graph, []);
  const { nodes, parameters, opsets } = reading;
  return { ...ports, nodes, operators: [...reading.operators].sort(), opsets, parameters };
}

const unsupported = (message: string, found: string, hint: string | null = null): TroupeError =>
  new TroupeError('model_unsupported', message, {
    expected: 'a self-contained ONNX model',
    got: found,
    hint: hint ?? 'Export the model again as one plain ONNX file.',
  });

function message(field: Field): Field {
  if (field.kind !== 'bytes') throw damagedMessage(`field ${field.number} is a number where a message is expected`);
  return field;
}

const named = (domain: string): string => (domain === 'ai.onnx' ? '' : domain);

function readOpset({ source, budget, opsets }: OnnxReading, { begin, end }: Field): void {
  let [domain, version] = ['', 0];
  for (const field of fields(source, begin, end, budget)) {
    if (field.number === 1) domain = named(text(source, field, budget));
    else if (field.number === 2) version = field.value;
  }
  if (Object.keys(opsets).length > 100) throw damagedMessage('it imports more than 100 operator sets');
  Object.defineProperty(opsets, domain, { value: version, enumerable: true, configurable: true });
}

type Scope = readonly ReadonlySet<string>[];

function checkGraph(reading: OnnxReading, graph: Field, outer: Scope): Pick<OnnxFileFacts, 'inputs' | 'outputs'> {
  const { source, budget } = reading;
  if (outer.length >= MAX_DEPTH) {
    throw unsupported(`This ONNX file nests graphs more than ${MAX_DEPTH} deep.`, `a depth of ${outer.length + 1}`);
  }
  const [inputs, outputs]: [OnnxFilePort[], OnnxFilePort[]] = [[], []];
  const initializers = new Set<string>();
  for (const field of fields(source, graph.begin, graph.end, budget)) {
    if (field.number === 5) {
      if (++reading.tensors > MAX_TENSORS) throw damagedMessage(`it has more than ${MAX_TENSORS} tensors`);
      const { name, elements } = checkTensor(source, message(field), budget);
      if (initializers.has(name)) throw damagedMessage(`tensor ${got(name)} is there twice`);
      initializers.add(name);
      reading.parameters += elements;
    } else if (field.number === 11) inputs.push(readPort(reading, message(field)));
    else if (field.number === 12) outputs.push(readPort(reading, message(field)));
    else if (field.number === 15) throw unsupported('This ONNX file has sparse tensors.', 'sparse_initializer');
    if (inputs.length + outputs.length > 10_000) throw damagedMessage('it has more than 10000 inputs and outputs');
  }
  const known = new Set([...initializers, ...inputs.map(({ name }) => name)]);
  const scope = [...outer, known];
  const defined = (name: string): boolean => scope.some((names) => names.has(name));
  for (const field of fields(source, graph.begin, graph.end, budget)) {
    if (field.number !== 1) continue;
    if (++reading.nodes > MAX_NODES) throw damagedMessage(`it has more than ${MAX_NODES} nodes`);
    for (const name of checkNode(reading, message(field), scope, defined)) {
      if (name === '') continue;
      if (defined(name)) throw damagedMessage(`${got(name)} is made twice`);
      known.add(name);
    }
  }
  const missing = outputs.find(({ name }) => !defined(name));
  if (missing) throw damagedMessage(`nothing makes the output ${got(missing.name)}`);
  return { inputs: inputs.filter(({ name }) => !initializers.has(name)), outputs };
}

/** Checks a node and answers what it makes. */
function checkNode(
  reading: OnnxReading,
  { begin, end }: Field,
  scope: Scope,
  defined: (name: string) => boolean,
): readonly string[] {
  const { source, budget } = reading;
  let [operator, domain] = ['', ''];
  const outputs: string[] = [];
  const attributes: Field[] = [];
  for (const field of fields(source, begin, end, budget)) {
    if (field.number === 1) {
      const name = text(source, field, budget);
      if (name !== '' && !defined(name)) {
        throw damagedMessage(`a node takes ${got(name)}, which nothing before it makes: a cycle, or not in order`);
      }
    } else if (field.number === 2) outputs.push(text(source, field, budget));
    else if (field.number === 3) text(source, field, budget);
    else if (field.number === 4) operator = text(source, field, budget);
    else if (field.number === 5) attributes.push(message(field));
    else if (field.number === 7) domain = named(text(source, field, budget));
    if (outputs.length + attributes.length > 10_000) throw damagedMessage('a node has more than 10000 parts');
  }
  const label = domain === '' ? operator : `${domain}.${operator}`;
  if (!DOMAINS.includes(domain)) {
    throw unsupported(`This ONNX file needs the operator ${got(label)}, which is neither ONNX nor onnxruntime.`, label);
  }
  if (operator === '' || !Object.hasOwn(reading.opsets, domain)) {
    throw damagedMessage(`a node is ${got(label)}, of an operator set the file does not import`);
  }
  if (reading.operators.size > 2000) throw damagedMessage('it has more than 2000 kinds of operators');
  reading.operators.add(label);
  for (const attribute of attributes) checkAttribute(reading, attribute, scope);
  return outputs;
}

function checkAttribute(reading: OnnxReading, { begin, end }: Field, scope: Scope): void {
  const { source, budget } = reading;
  for (const field of fields(source, begin, end, budget)) {
    if (field.number === 1) text(source, field, budget);
    else if (field.number === 5 || field.number === 10) checkTensor(source, message(field), budget);
    else if (field.number === 6 || field.number === 11) checkGraph(reading, message(field), scope);
    else if (field.number === 21)
      throw unsupported('This ONNX file refers to attributes of functions.', 'ref_attr_name');
    else if (field.number === 22 || field.number === 23) throw outsideData('a node has a sparse tensor');
  }
}

/** A tensor that goes in or comes out: TypeProto.Tensor and nothing else. */
function readPort({ source, budget }: OnnxReading, { begin, end }: Field): OnnxFilePort {
  let name = '';
  let type = 0;
  let shape: (number | string | null)[] | null = null;
  const within = (field: Field) => fields(source, message(field).begin, field.end, budget);
  for (const field of fields(source, begin, end, budget)) {
    if (field.number === 1) name = text(source, field, budget);
    if (field.number !== 2) continue;
    for (const kind of within(field)) {
      if (kind.number === 6) continue;
      if (kind.number !== 1) throw unsupported(`${got(name)} is not a tensor.`, `field ${kind.number} of TypeProto`);
      for (const part of within(kind)) {
        if (part.number === 1) type = part.value;
        else if (part.number === 2) shape = readShape(part);
      }
    }
  }
  const size = (shape ?? []).reduce<number>((all, dim) => all * (typeof dim === 'number' ? dim : 1), 1);
  if (size > 2 ** 40 || (shape ?? []).some((dim) => typeof dim === 'number' && dim < 0)) {
    throw damagedMessage(`${got(name)} has the shape ${got(shape)}`);
  }
  return { name, type, shape };

  function readShape(part: Field): (number | string | null)[] {
    const dims: (number | string | null)[] = [];
    for (const dim of within(part)) {
      if (dims.length === 64) throw damagedMessage(`${got(name)} has more than 64 dimensions`);
      dims.push(readDim(dim));
    }
    return dims;
  }

  function readDim(field: Field): number | string | null {
    let dim: number | string | null = null;
    for (const part of within(field)) {
      if (part.number === 1) dim = part.value;
      else if (part.number === 2) dim = text(source, part, budget);
    }
    return dim;
  }
}
