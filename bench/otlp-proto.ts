/**
 * The messages of opentelemetry-proto 1.x that carry traces, as a descriptor for @bufbuild/protobuf: the decoder of others that
 * `bench otlp` measures beside the one of Troupe.
 */
import { createFileRegistry, fromBinary, fromJson, type Message } from '@bufbuild/protobuf';
import { FileDescriptorProtoSchema } from '@bufbuild/protobuf/wkt';

type Field = readonly [name: string, number: number, type: string];

/** Name, number and type; a type in brackets repeats, one with a star is a member of the choice `value`. */
const MESSAGES: Readonly<Record<string, readonly Field[]>> = {
  AnyValue: [
    ['string_value', 1, 'string*'],
    ['bool_value', 2, 'bool*'],
    ['int_value', 3, 'int64*'],
    ['double_value', 4, 'double*'],
    ['array_value', 5, 'ArrayValue*'],
    ['kvlist_value', 6, 'KeyValueList*'],
    ['bytes_value', 7, 'bytes*'],
  ],
  ArrayValue: [['values', 1, '[AnyValue]']],
  KeyValueList: [['values', 1, '[KeyValue]']],
  KeyValue: [
    ['key', 1, 'string'],
    ['value', 2, 'AnyValue'],
  ],
  InstrumentationScope: [
    ['name', 1, 'string'],
    ['version', 2, 'string'],
    ['attributes', 3, '[KeyValue]'],
    ['dropped_attributes_count', 4, 'uint32'],
  ],
  Resource: [
    ['attributes', 1, '[KeyValue]'],
    ['dropped_attributes_count', 2, 'uint32'],
  ],
  ExportTraceServiceRequest: [['resource_spans', 1, '[ResourceSpans]']],
  ResourceSpans: [
    ['resource', 1, 'Resource'],
    ['scope_spans', 2, '[ScopeSpans]'],
    ['schema_url', 3, 'string'],
  ],
  ScopeSpans: [
    ['scope', 1, 'InstrumentationScope'],
    ['spans', 2, '[Span]'],
    ['schema_url', 3, 'string'],
  ],
  Span: [
    ['trace_id', 1, 'bytes'],
    ['span_id', 2, 'bytes'],
    ['trace_state', 3, 'string'],
    ['parent_span_id', 4, 'bytes'],
    ['name', 5, 'string'],
    ['kind', 6, 'int32'],
    ['start_time_unix_nano', 7, 'fixed64'],
    ['end_time_unix_nano', 8, 'fixed64'],
    ['attributes', 9, '[KeyValue]'],
    ['dropped_attributes_count', 10, 'uint32'],
    ['events', 11, '[Event]'],
    ['dropped_events_count', 12, 'uint32'],
    ['links', 13, '[Link]'],
    ['dropped_links_count', 14, 'uint32'],
    ['status', 15, 'Status'],
    ['flags', 16, 'fixed32'],
  ],
  Event: [
    ['time_unix_nano', 1, 'fixed64'],
    ['name', 2, 'string'],
    ['attributes', 3, '[KeyValue]'],
    ['dropped_attributes_count', 4, 'uint32'],
  ],
  Link: [
    ['trace_id', 1, 'bytes'],
    ['span_id', 2, 'bytes'],
    ['trace_state', 3, 'string'],
    ['attributes', 4, '[KeyValue]'],
    ['dropped_attributes_count', 5, 'uint32'],
    ['flags', 6, 'fixed32'],
  ],
  Status: [
    ['message', 2, 'string'],
    ['code', 3, 'int32'],
  ],
};

const field = ([name, number, written]: Field) => {
  const type = written.replace(/[[\]*]/g, '');
  return {
    name,
    number,
    label: written.startsWith('[') ? 'LABEL_REPEATED' : 'LABEL_OPTIONAL',
    ...(type in MESSAGES
      ? { type: 'TYPE_MESSAGE', typeName: `.otlp.${type}` }
      : { type: `TYPE_${type.toUpperCase()}` }),
    ...(written.endsWith('*') ? { oneofIndex: 0 } : {}),
  };
};

const file = fromJson(FileDescriptorProtoSchema, {
  name: 'otlp.proto',
  package: 'otlp',
  syntax: 'proto3',
  messageType: Object.entries(MESSAGES).map(([name, fields]) => ({
    name,
    field: fields.map(field),
    ...(name === 'AnyValue' ? { oneofDecl: [{ name: 'value' }] } : {}),
  })),
});
const request = createFileRegistry(file, () => undefined).getMessage('otlp.ExportTraceServiceRequest')!;

type Decoded = Message & {
  readonly resourceSpans: readonly {
    readonly scopeSpans: readonly {
      readonly spans: readonly { readonly name: string; readonly attributes: readonly unknown[] }[];
    }[];
  }[];
};

/** A request of traces as the messages that the published schema has. */
export const decodeTraces = (bytes: Uint8Array): Decoded => fromBinary(request, bytes) as Decoded;
