/**
 * What serializers of a schema registry put before a value: a byte 0, then the id of the schema in 4 bytes, the highest first.
 * Written so by Confluent's serializers: confluentinc/schema-registry 0449d8c, AbstractKafkaJsonSchemaSerializer.java, and
 * confluentinc/confluent-kafka-python 05ba987, schema_registry/json_schema.py. With JSON Schema the JSON text follows at once; with Avro and
 * Protobuf bytes follow that only the schema explains.
 */

export type FrameContent = {
  /** The id of the schema, as text; null where the value has no such frame. */
  readonly schema: string | null;
  readonly payload: Uint8Array;
};

/** No JSON text begins with a byte 0, so nothing else is taken for a frame. */
export function unframed(value: Uint8Array): FrameContent {
  if (value.length < 5 || value[0] !== 0) return { schema: null, payload: value };
  const schema = new DataView(value.buffer, value.byteOffset).getUint32(1);
  return { schema: String(schema), payload: value.subarray(5) };
}

/**
 * The id of a schema in the header `__value_schema_id`, a byte 1 and a UUID in 16 bytes, as serializers that leave the value alone write it
 * (confluent-kafka-python 2.16.1, header_schema_id_serializer; that of Protobuf puts the place of the message in the schema behind it);
 * null for anything else.
 */
export function schemaInHeader(header: unknown): string | null {
  if (!(header instanceof Uint8Array) || header.length < 17 || header[0] !== 1) return null;
  const hex = Buffer.from(header.subarray(1, 17)).toString('hex');
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}
