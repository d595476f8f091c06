/** The episode of a trace: its task, its beginning, its end, and the original of all its items. */
import type { Draft, Message } from '../events/events.ts';
import { given, sha256 } from '../events/json.ts';
import { textIn } from '../formats/kit/chat-message.ts';
import { NO_TOKEN_IDS, taskOf } from '../formats/kit/run.ts';
import { type About, type Act, CONFLICTING_SPAN, INCOMPLETE } from './trace.ts';
import type { Emit } from './trace-emit.ts';
import type { TraceTree } from './trace-tree.ts';

export function originalDraft(emit: Emit, trace: string, body: string): Draft {
  const artifactId = sha256(body);
  const data = {
    artifact_id: artifactId,
    episode_id: trace,
    role: 'raw-record',
    media_type: 'application/json',
    sha256: artifactId,
    size: Buffer.byteLength(body),
  } as const;
  return emit('artifact.attached', [trace], data, null);
}

export function episodeDrafts(emit: Emit, trace: string, tree: TraceTree, whole: boolean): Draft[] {
  const { roots, acts } = tree;
  if (!whole && roots.length === 0) return [];
  const facts = factsOf(tree);
  const format = (roots[0] ?? acts[0])!.format;
  const known = roots.length > 0;
  // Without its root a trace may be a part of a run, which begins with what another agent or an earlier turn says.
  const text = known ? (facts.taskText ?? firstUserText(tree)) : undefined;
  const task = taskOf(format, text, given('ground_truth', facts.groundTruth), facts.taskId);
  const tokens = acts.some(({ what }) => what.kind === 'generation' && what.choices.some((choice) => choice.token_ids));
  const has = (flag: string): boolean => acts.some((act) => act.flags?.includes(flag));
  const conflicting = has(CONFLICTING_SPAN);
  const flags = [
    ...(tokens ? [] : [NO_TOKEN_IDS]),
    ...(known ? [] : ['no_root']),
    ...[INCOMPLETE, CONFLICTING_SPAN].filter(has),
  ];
  const began = known ? (roots.find(({ start }) => start !== null)?.start ?? null) : null;
  const drafts: Draft[] = task ? [emit('task.defined', [], task, null)] : [];
  const started = {
    attempt: facts.attempt,
    episode_id: trace,
    flags,
    group_id: facts.groupId,
    native: { format, ids: { trace_id: trace } },
    session_id: facts.sessionId,
    tags: facts.tags,
    task_id: task?.task_id,
  };
  // A reading that knows of the conflict shows over one that does not.
  const revision = conflicting ? CONFLICTING_SPAN : undefined;
  drafts.push(emit('episode.started', [trace], started, began, { revision, full: known }));
  if (whole || roots.some(({ end }) => end !== null)) {
    const failed = roots.some((act) => act.error !== undefined);
    const finished = {
      answer: facts.answer,
      episode_id: trace,
      outcome: facts.outcome ?? (failed ? 'error' : 'unknown'),
      stop_reason: facts.stopReason ?? (known ? undefined : 'no_root'),
    } as const;
    drafts.push(emit('episode.finished', [trace], finished, known ? lastTime(acts) : null, { full: known }));
  }
  return drafts;
}

function lastTime(acts: readonly Act[]): string | null {
  let last: string | null = null;
  for (const { start, end } of acts) {
    if (end !== null && (last === null || end > last)) last = end;
    if (start !== null && (last === null || start > last)) last = start;
  }
  return last;
}

/** The facts of the acts about their episode: of each fact the first, roots before others; tags together. */
function factsOf({ acts, roots }: TraceTree): About {
  const facts: Record<string, unknown> = {};
  const allTags: Record<string, unknown>[] = [];
  const take = (about: Readonly<Record<string, unknown>>): void => {
    for (const name of Object.keys(about)) {
      if (about[name] !== undefined) facts[name] ??= about[name];
    }
    if (about.tags) allTags.push(about.tags as Record<string, unknown>);
  };
  for (const { about } of roots) if (about) take(about);
  for (const { about, parent } of acts) if (about && parent !== null) take(about);
  const tags: Record<string, unknown> = {};
  for (const some of allTags.reverse()) Object.assign(tags, some);
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
