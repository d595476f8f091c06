/**
 * Events of NVIDIA NeMo Relay in its Agent Trajectory Observability Format 0.1 (docs/reference/atof-event-format.mdx): the start and the end of
 * scopes, which share their `uuid`, and marks. Requests and answers of models are those of the provider.
 */
import { asText, given, isRecord, type JsonObject, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import type { Act } from '../../traces/trace.ts';
import { traceReading } from '../../traces/trace-import.ts';
import { fromAnthropic } from '../kit/anthropic-blocks.ts';
import { type Format, listed, listsOf } from '../kit/format.ts';
import { refusal } from '../kit/native.ts';
import { timeOfSeconds, utcOf } from '../kit/run.ts';
import { choicesOf, messagesIn } from '../training/model-batches.ts';
import { plainAct } from './exported-spans.ts';

const NAME = 'nemo-relay';

const isEvent = (one: unknown): one is JsonObject =>
  isRecord(one) &&
  isIdentifier(one.atof_version) &&
  (one.kind === 'scope' || one.kind === 'mark') &&
  isIdentifier(one.uuid);

export const nemoRelay: Format = {
  name: NAME,
  summary: 'Events of NVIDIA NeMo Relay (ATOF) {atof_version, kind: "scope" | "mark", category, uuid, parent_uuid}',
  recognises: ({ records }) => records.some(isEvent),
  gathers: () => `import:${NAME}`,
  rereads: listed,
  restates: ['task.defined'],
  convert(record) {
    const reading = traceReading(NAME);
    const scopes = new Map<string, { start?: JsonObject; end?: JsonObject }>();
    const marks: JsonObject[] = [];
    for (const [at, one] of listsOf(record.value).flat().entries()) {
      if (!isEvent(one)) reading.refusals.push({ ...refusal('bad_shape', '', 'an event of ATOF', one), at });
      else if (one.kind === 'mark') marks.push(one);
      else {
        const id = one.uuid as string;
        scopes.set(id, { ...scopes.get(id), [one.scope_category === 'end' ? 'end' : 'start']: one });
      }
    }
    const placeOf = ({ uuid, parent_uuid: parent, propagation_root_uuid: root }: JsonObject) => ({
      id: uuid as string,
      // A scope below the root whose own parent is in another part is no root of its trace.
      parent: isIdentifier(parent) && scopes.has(parent) ? parent : isIdentifier(root) && root !== uuid ? '' : null,
    });
    const traceOf = (event: JsonObject): string => {
      const seen = new Set<string>();
      let { id, parent } = placeOf(event);
      while (parent !== null && parent !== '' && !seen.has(parent)) {
        seen.add(parent);
        const { start, end } = scopes.get(parent)!;
        ({ id, parent } = placeOf((start ?? end)!));
      }
      return isIdentifier(event.propagation_root_uuid) ? event.propagation_root_uuid : id;
    };
    for (const { start, end } of scopes.values()) {
      const known = (start ?? end)!;
      const trace = traceOf(known);
      reading.acts.push({ ...scopeAct({ ...placeOf(known), trace }, start, end), format: NAME });
      for (const event of [start, end]) if (event) reading.keep(trace, event);
    }
    for (const mark of marks) {
      const trace = traceOf(mark);
      const content = without({ name: mark.name, data: mark.data ?? undefined });
      // A mark outside all scopes is no root of its trace.
      const place = {
        ...placeOf(mark),
        parent: placeOf(mark).parent ?? '',
        trace,
        start: timeOf(mark),
        end: timeOf(mark),
      };
      reading.acts.push({
        ...place,
        format: NAME,
        name: asText(mark.name ?? ''),
        what: { kind: 'observation', seen: 'mark', content },
        unmapped: metadataIn(mark),
      });
      reading.keep(trace, mark);
    }
    return reading.converted();
  },
};

/** RFC 3339 or microseconds. */
const timeOf = (event: JsonObject | undefined): string | null =>
  typeof event?.timestamp === 'number' ? timeOfSeconds(event.timestamp / 1e6) : utcOf(event?.timestamp);

const metadataIn = (event: JsonObject | undefined): JsonObject | undefined =>
  without(given('metadata', isRecord(event?.metadata) ? event.metadata : undefined));

function scopeAct(
  place: Pick<Act, 'trace' | 'id' | 'parent'>,
  start: JsonObject | undefined,
  end: JsonObject | undefined,
): Act {
  const known = (start ?? end)!;
  const profile = isRecord(known.category_profile) ? known.category_profile : {};
  const { 'otel.status_code': status, 'otel.status_message': message } = isRecord(end?.metadata)
    ? end.metadata
    : ({} as JsonObject);
  const [input, output] = [start?.data ?? undefined, end?.data ?? undefined];
  const isModel = known.category === 'llm';
  const asked = isModel && isRecord(input) && isRecord(input.content) ? input.content : {};
  const { messages: _, input: __, instructions: ___, system: ____, tools, model, ...params } = asked;
  const messages = messagesIn(asked);
  const choices = isModel && isRecord(output) ? choicesOf(output) : [];
  const body = {
    name: known.name,
    input: messages ? { messages: fromAnthropic(messages), ...given('tools', tools) } : input,
    output: choices.length > 0 ? { choices } : output,
    metadata: { tool_call_id: profile.tool_call_id },
    ...(isModel ? { model: model ?? profile.model_name, modelParameters: params } : {}),
    ...(isModel && isRecord(output) && isRecord(output.usage) ? { usageDetails: output.usage } : {}),
  };
  const error = status === 'ERROR' ? (message ?? 'ERROR') : undefined;
  return plainAct({ ...place, start: timeOf(start), end: timeOf(end), error }, known.category, body, metadataIn(start));
}
