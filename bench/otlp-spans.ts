/** Made-up OTLP requests in protobuf: traces of ten spans of a team, about 1 KB a span, all ids drawn from one number. */

export type SpanBatch = { readonly body: Buffer; readonly spans: number };

export const SPANS_A_TRACE = 10;
const SPANS_A_BATCH = 100;

const varint = (value: number): Buffer => {
  const bytes: number[] = [];
  for (let rest = value; ; rest = Math.floor(rest / 128)) {
    if (rest < 128) return Buffer.from([...bytes, rest]);
    bytes.push((rest % 128) + 128);
  }
};
const field = (number: number, body: Buffer | string): Buffer => {
  const bytes = typeof body === 'string' ? Buffer.from(body) : body;
  return Buffer.concat([varint(number * 8 + 2), varint(bytes.length), bytes]);
};
const fixed64 = (number: number, value: bigint): Buffer => {
  const bytes = Buffer.alloc(9);
  bytes[0] = number * 8 + 1;
  bytes.writeBigUInt64LE(value, 1);
  return bytes;
};
const attribute = (key: string, value: string): Buffer =>
  field(9, Buffer.concat([field(1, key), field(2, field(1, value))]));

const TEXT = 'The answer follows from what was said before, so it is given once more in other words. ';

/** A root, three agents with a model call each, and a tool run inside each. */
function traceSpans(seed: number, trace: number): Buffer[] {
  const traceId = Buffer.alloc(16);
  traceId.writeUInt32BE(seed + 1, 4);
  traceId.writeUInt32BE(trace + 1, 12);
  const idOf = (n: number): Buffer => {
    const id = Buffer.from(traceId.subarray(8));
    id.writeUInt32BE((seed + 1) * 16 + n, 0);
    return id;
  };
  const start = 1_789_000_000_000_000_000n + BigInt(trace) * 1_000_000_000n;
  const span = (n: number, parent: number | null, name: string, attributes: readonly Buffer[]): Buffer =>
    Buffer.concat([
      field(1, traceId),
      field(2, idOf(n)),
      ...(parent === null ? [] : [field(4, idOf(parent))]),
      field(5, name),
      fixed64(7, start + BigInt(n) * 1_000_000n),
      fixed64(8, start + BigInt(n) * 1_000_000n + 500_000n),
      ...attributes,
    ]);
  const operation = (name: string): Buffer => attribute('gen_ai.operation.name', name);
  const parts = (role: string, content: string): string =>
    JSON.stringify([{ role, parts: [{ type: 'text', content: `${content} ${trace}` }] }]);
  const inside = [0, 1, 2].flatMap((agent) => {
    const first = 1 + agent * 3;
    return [
      span(first + 1, first, 'chat made-up', [
        operation('chat'),
        attribute('gen_ai.request.model', 'made-up'),
        attribute('gen_ai.input.messages', parts('user', TEXT.repeat(6))),
        attribute('gen_ai.output.messages', parts('assistant', TEXT.repeat(6))),
      ]),
      span(first + 2, first, 'execute_tool search', [
        operation('execute_tool'),
        attribute('gen_ai.tool.name', 'search'),
        attribute('gen_ai.tool.call.arguments', JSON.stringify({ query: TEXT.repeat(3) })),
        attribute('gen_ai.tool.call.result', TEXT.repeat(6)),
      ]),
      span(first, 0, `invoke_agent member-${agent}`, [
        operation('invoke_agent'),
        attribute('gen_ai.agent.name', `member-${agent}`),
      ]),
    ];
  });
  return [...inside, span(0, null, 'team', [operation('invoke_workflow')])];
}

/** As many batches as hold `spans`; no two seeds have an id in common. The resource may say more than the service's name. */
export function spanBatches(seed: number, spans: number, more: Readonly<Record<string, string>> = {}): SpanBatch[] {
  const named = Object.entries({ 'service.name': 'team', ...more });
  const resource = Buffer.concat(
    named.map(([key, value]) => field(1, Buffer.concat([field(1, key), field(2, field(1, value))]))),
  );
  const traces = SPANS_A_BATCH / SPANS_A_TRACE;
  return Array.from({ length: Math.ceil(spans / SPANS_A_BATCH) }, (_, batch) => {
    const all = Array.from({ length: traces }, (_, i) => traceSpans(seed, batch * traces + i)).flat();
    const scope = Buffer.concat([field(1, field(1, 'bench')), ...all.map((one) => field(2, one))]);
    return { body: field(1, Buffer.concat([field(1, resource), field(2, scope)])), spans: all.length };
  });
}
