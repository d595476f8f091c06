/**
 * MAS-GPT: a model writes a team as a program for each query. `gen.json` holds what it wrote, `infer.jsonl` the same rows with what
 * the program answered; both rows of one generation are one episode. The program is kept and never run.
 */
import type { Draft } from '../../events/events.ts';
import { given, hashId, isRecord, sha256, without } from '../../events/json.ts';
import type { Converted, Format, NativeRecord } from '../kit/format.ts';
import { refusal, refused, revisedEmitter } from '../kit/native.ts';
import { runDrafts, taskOf } from '../kit/run.ts';

const NAME = 'mas-gpt';
const AGENT = 'generator';
const CALL = 'generation';
const emit = revisedEmitter(NAME);

export const masGpt: Format = {
  name: NAME,
  summary:
    'MAS-GPT generations {query, masgpt_generated, mas_str, extract_flag}, with generated_output once they were run',
  recognises: ({ records }) =>
    records.some((record) => isRecord(record) && ('masgpt_generated' in record || 'mas_str' in record)),
  convert,
  restates: new Set(['task.defined', 'agent.defined', 'generation.completed', 'artifact.attached']),
};

function convert(record: NativeRecord): Converted {
  const { value: row } = record;
  if (!isRecord(row)) return refused(refusal('bad_type', '', 'a generation object', row));
  const { query, gt, tag, source, masgpt_generated: text, mas_str: program, extract_flag: extracted } = row;
  const tags = without({ tag, source });
  const task = taskOf(NAME, query, { ...given('ground_truth', gt ?? undefined), ...given('tags', tags) });
  if (!task) return refused(refusal('bad_type', 'query', 'the text of the task', query));
  if (typeof text !== 'string') return refused(refusal('bad_type', 'masgpt_generated', 'a text', text));
  for (const [name, value, type] of [
    ['extract_flag', extracted, 'boolean'],
    ['mas_str', program, 'string'],
  ] as const) {
    if (value !== undefined && value !== null && typeof value !== type) {
      return refused(refusal('bad_type', name, type === 'boolean' ? 'true or false' : 'a text', value));
    }
  }
  const episodeId = hashId(NAME, query, text, record.ordinal);
  const call = { episode_id: episodeId, call_id: CALL, agent_id: AGENT, seq: 0 };
  const drafts: Draft[] = [
    emit.event('generation.completed', [episodeId], { ...call, choices: [{ index: 0, content: text }] }),
    ...(typeof program === 'string' ? [programDraft(episodeId, program, extracted === false)] : []),
  ];
  const answer = row.generated_output;
  const ran = answer !== undefined;
  const known = ['query', 'gt', 'tag', 'source', 'masgpt_generated', 'mas_str', 'extract_flag'];
  return {
    drafts: runDrafts(emit, {
      format: NAME,
      episodeId,
      canonical: record.canonical,
      task,
      started: given('unmapped', without(row, ...known, 'generated_output')),
      agents: [AGENT],
      events: drafts,
      finished: ran
        ? {
            outcome: 'unknown',
            ...(typeof answer === 'string' ? { answer } : { unmapped: { generated_output: answer } }),
          }
        : null,
    }),
    refusals: [],
    raw: record.canonical,
    ...(typeof program === 'string' ? { bodies: [program] } : {}),
  };
}

/** The program of the team; one that could not be read out of the text is the built-in fallback, not the model's work. */
function programDraft(episodeId: string, program: string, fallback: boolean): Draft {
  const hash = sha256(program);
  return emit.event('artifact.attached', [episodeId, hash], {
    artifact_id: hash,
    episode_id: episodeId,
    role: 'code',
    media_type: 'text/x-python',
    sha256: hash,
    size: Buffer.byteLength(program),
    target: { kind: 'step', id: `${CALL}/0`, episode_id: episodeId },
    ...(fallback ? { flags: ['fallback_code'] } : {}),
  });
}
