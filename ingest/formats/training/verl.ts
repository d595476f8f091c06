/**
 * Generations that verl dumps of rollouts (`trainer.rollout_data_dir`) and validations (`trainer.validation_data_dir`), a row each:
 * {input, output, gts, score, step, …}. Read from verl-project/verl at 1dda039b, trainer/ppo/ray_trainer.py and
 * trainer/ppo/v1/trainer_base.py, where `uid` is SAMPLE_ROLLOUT_OUTPUT. Versions up to 0.5 write no `gts`. Texts are decoded without
 * special tokens.
 */
import { asText, canonicalJson, given, hashId, isRecord, type JsonObject, without } from '../../events/json.ts';
import { writtenJson } from '../../events/spelling.ts';
import { isIdentifier } from '../../events/text.ts';
import { type Conversion, type Format, listsOf, type NativeRecord, type NativeRefusal } from '../kit/format.ts';
import { refusal } from '../kit/native.ts';
import { taskOf } from '../kit/run.ts';
import { Trace } from '../kit/trace.ts';

const NAME = 'verl';

/** The member of a run that verl trains; it has no name. */
const AGENT = 'policy';

const isRow = (record: unknown): record is JsonObject =>
  isRecord(record) &&
  'input' in record &&
  'output' in record &&
  'score' in record &&
  ('gts' in record || 'step' in record);

const hasPlace = (record: unknown): boolean => isRow(record) && placeOf(record.uid) !== null;

export const verl: Format = {
  name: NAME,
  summary: 'verl rollout and validation dumps: {input, output, gts?, score, step}',
  recognises: ({ records }) => records.some(isRow),
  gathers: ({ records }) => (records.some(hasPlace) ? `import:${NAME}` : null),
  rereads: (stored) => (Array.isArray(stored) ? stored : [stored]),
  convert,
};

type Row = { readonly row: JsonObject; readonly turn: number };

function convert(record: NativeRecord): Conversion {
  const rows: readonly unknown[] = Array.isArray(record.value) ? listsOf(record.value).flat().flat() : [record.value];
  const refusals: NativeRefusal[] = [];
  const rollouts = new Map<string, { readonly group: string; readonly rows: Row[] }>();
  const equal = new Map<string, number>();
  for (const [at, row] of rows.entries()) {
    const bad = badRow(row);
    if (bad) {
      refusals.push({ ...bad, at });
      continue;
    }
    const place = placeOf((row as JsonObject).uid);
    const canonical = canonicalJson(row);
    const ordinal = record.ordinal + (equal.get(canonical) ?? 0);
    equal.set(canonical, ordinal - record.ordinal + 1);
    const episodeId = place ? `${place.sample}_${place.rollout}` : hashId(NAME, canonical, ordinal);
    const group = place ? place.sample : hashId(NAME, (row as JsonObject).input, (row as JsonObject).step ?? null);
    const rollout = rollouts.get(episodeId) ?? { group, rows: [] };
    if (!rollout.rows.some((one) => one.turn === place?.output))
      rollout.rows.push({ row: row as JsonObject, turn: place?.output ?? 0 });
    rollouts.set(episodeId, rollout);
  }
  const bodies: string[] = [];
  const drafts = [...rollouts].flatMap(([episodeId, { group, rows: outputs }]) => {
    const turns = outputs.toSorted((a, b) => a.turn - b.turn);
    const original = writtenJson(turns.length === 1 ? turns[0]!.row : turns.map(({ row }) => row));
    bodies.push(original);
    return convertRollout(Trace.revised(NAME, { ...record, canonical: original }, episodeId), group, turns).drafts;
  });
  if (rows.length === 0)
    refusals.push(refusal('bad_shape', '', 'at least one row {input, output, score}', record.value));
  const repeated = record.ordinal > 0 && [...rollouts.values()].every(({ rows: [one] }) => hasPlace(one!.row));
  return { drafts, refusals, raw: null, bodies, repeated };
}

function badRow(row: unknown): NativeRefusal | null {
  if (!isRow(row)) return refusal('bad_shape', '', 'a row {input, output, score} with gts or step', row);
  if (typeof row.input !== 'string') return refusal('bad_type', 'input', 'a text', row.input);
  if (typeof row.output !== 'string') return refusal('bad_type', 'output', 'a text', row.output);
  return null;
}

function placeOf(uid: unknown): { readonly sample: string; readonly rollout: string; readonly output: number } | null {
  const found = isIdentifier(uid) ? /^(.+)_(\d+)_(\d{1,9})$/.exec(uid) : null;
  return found ? { sample: found[1]!, rollout: found[2]!, output: Number(found[3]) } : null;
}

/** What the environment says inside an answer of several turns, in the templates whose tools verl's agent loop runs. */
const TOOL_OUTPUT = /<tool_response>|<\|start_header_id\|>ipython/;

function convertRollout(trace: Trace, group: string, turns: readonly Row[]): Conversion {
  const [{ row: first, turn: begin }] = turns as [Row];
  const { row: last } = turns.at(-1)!;
  const mixed = turns.some(({ row }) => TOOL_OUTPUT.test(asText(row.output)));
  const { scores, rest } = restOf(last);
  for (const { row, turn } of turns)
    trace.rollout({
      ...{ callId: `m${turn}`, agentId: AGENT, turn },
      input: [{ role: 'user', content: row.input as string }],
      answer: { role: 'assistant', content: row.output as string },
      completed: typeof row.step === 'number' || typeof row.step === 'string' ? { model_version: `${row.step}` } : {},
    });
  const by = 'env' as const;
  if (typeof last.score === 'number')
    trace.feedback(['reward', 'reward'], { kind: 'reward', name: 'reward', value: last.score, by });
  for (const [name, value] of scores) trace.feedback(['score', name], { kind: 'score', name, value, by });
  return trace.finish({
    // A later prompt holds what came before it.
    task: taskOf(NAME, begin === 0 ? first.input : undefined, { ground_truth: first.gts ?? undefined }),
    flags: ['decoded_prompt', ...(mixed ? ['unsegmented'] : [])],
    started: {
      group_id: group,
      tags: without({ step: first.step ?? undefined, uid: first.uid ?? undefined }),
      unmapped: rest,
    },
    agents: [AGENT],
  });
}

const READ: ReadonlySet<string> = new Set(['input', 'output', 'gts', 'score', 'step', 'uid', 'reward']);

/** What the reward function returned beside the score: numbers and booleans are scores. A validation repeats its score as `reward`. */
function restOf(row: JsonObject): {
  readonly scores: readonly (readonly [string, number | boolean])[];
  readonly rest: Record<string, unknown> | undefined;
} {
  const entries = Object.entries(row).filter(([name]) => !READ.has(name));
  const scores = entries.filter(
    (entry): entry is [string, number | boolean] =>
      isIdentifier(entry[0]) && (typeof entry[1] === 'number' || typeof entry[1] === 'boolean'),
  );
  const rest = {
    ...without(row, ...READ, ...scores.map(([name]) => name)),
    ...(typeof row.score === 'number' ? {} : { score: row.score }),
    ...(row.reward === row.score ? {} : given('reward', row.reward)),
  };
  return { scores, rest: without(rest) };
}
