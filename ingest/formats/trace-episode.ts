/** What a trace says of its episode: its task, its beginning, its end, and the original of all its items. */
import type { Draft, Message } from '../events.ts';
import { sha256 } from '../json.ts';
import { textIn } from './chat-message.ts';
import { given } from './native.ts';
import { NO_TOKEN_IDS, taskOf } from './run.ts';
import type { About } from './trace.ts';
import type { TraceTree } from './trace-tree.ts';
import type { Speak } from './trace-voice.ts';

export function originalDraft(speak: Speak, trace: string, body: string): Draft {
  const artifactId = sha256(body);
  const data = {
    artifact_id: artifactId,
    episode_id: trace,
    role: 'raw-record',
    media_type: 'application/json',
    sha256: artifactId,
    size: Buffer.byteLength(body),
  } as const;
  return speak('artifact.attached', [trace], data, null);
}

export function episodeDrafts(speak: Speak, trace: string, tree: TraceTree, whole: boolean): Draft[] {
  const { roots, acts } = tree;
  if (!whole && roots.length === 0) return [];
  const facts = factsOf(tree);
  const format = (roots[0] ?? acts[0])!.format;
  const task = taskOf(
    format,
    facts.taskText ?? firstUserText(tree),
    given('ground_truth', facts.groundTruth),
    facts.taskId,
  );
  const known = roots.length > 0;
  const times = acts.flatMap((act) => [act.end, act.start]).filter((time) => time !== null);
  const failed = roots.some((act) => act.error !== undefined);
  const tokens = acts.some(({ what }) => what.kind === 'generation' && what.choices.some((choice) => choice.token_ids));
  const flags = [...(tokens ? [] : [NO_TOKEN_IDS]), ...(known ? [] : ['no_root'])];
  return [
    ...(task ? [speak('task.defined', [], task, null)] : []),
    speak(
      'episode.started',
      [trace],
      {
        episode_id: trace,
        ...given('task_id', task?.task_id),
        ...given('session_id', facts.sessionId),
        ...given('group_id', facts.groupId),
        ...given('attempt', facts.attempt),
        ...given('tags', facts.tags),
        native: { format, ids: { trace_id: trace } },
        flags,
      },
      known ? (roots.map(({ start }) => start).find((start) => start !== null) ?? null) : null,
      { full: known },
    ),
    ...(whole || roots.some(({ end }) => end !== null) ? [finished()] : []),
  ];

  function finished(): Draft {
    return speak(
      'episode.finished',
      [trace],
      {
        episode_id: trace,
        outcome: facts.outcome ?? (failed ? 'error' : 'unknown'),
        ...given('answer', facts.answer),
        ...given('stop_reason', facts.stopReason ?? (known ? undefined : 'no_root')),
      },
      known ? (times.sort().at(-1) ?? null) : null,
      { full: known },
    );
  }
}

/** What the acts say about their episode: of each fact the first, roots before others; tags together. */
function factsOf({ acts, roots }: TraceTree): About {
  const said = [...roots, ...acts.filter((act) => act.parent !== null)].flatMap(({ about }) => (about ? [about] : []));
  const facts: Record<string, unknown> = {};
  for (const about of said) {
    for (const [name, value] of Object.entries(about)) if (value !== undefined) facts[name] ??= value;
  }
  const tags = Object.assign({}, ...said.map(({ tags }) => tags ?? {}).reverse());
  return { ...facts, tags: Object.keys(tags).length > 0 ? tags : undefined };
}

function firstUserText({ acts, isLeaf }: TraceTree): string | undefined {
  for (const act of acts) {
    if (act.what.kind !== 'generation' || !isLeaf(act)) continue;
    const asked = act.what.input?.find((message) => message.role === 'user');
    const text = asked && contentText(asked);
    if (text) return text;
  }
  return undefined;
}

const contentText = ({ content }: Message): string | undefined =>
  typeof content === 'string'
    ? content
    : textIn((content ?? []).map((part) => (part.type === 'text' ? { text: part.content } : {})));
