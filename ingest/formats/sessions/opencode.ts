/**
 * Sessions of opencode: what `opencode export` prints, {info, messages: [{info, parts}]}, and the files of
 * `~/.local/share/opencode/storage` (session, message and part), in which versions before 1.2 kept each record. Read from what
 * version 1.18.33 (npm opencode-ai) writes against a scripted model server, and from anomalyco/opencode (before: sst/opencode),
 * packages/opencode/src/session/message-v2.ts (commit 007a940) and src/cli/cmd/export.ts (07fa810).
 *
 * A sub-agent has a session of its own that names the session which gave it its task: both are one episode.
 */
import type { Draft } from '../../events/events.ts';
import { isRecord, without } from '../../events/json.ts';
import { writtenJson } from '../../events/spelling.ts';
import { isIdentifier } from '../../events/text.ts';
import { type Conversion, type Format, listed, listsOf, type NativeRecord } from '../kit/format.ts';
import { rawRecord, refusal, refused, revisedEmitter } from '../kit/native.ts';
import { taskOf, timeOfMs } from '../kit/run.ts';
import { Trace } from '../kit/trace.ts';
import { isOpencode, parentOf, type Session, type SessionMessage, sessionsIn } from './opencode-records.ts';
import { addThread } from './opencode-thread.ts';

const NAME = 'opencode';
const emit = revisedEmitter(NAME);
/** The agent that the person talks to. */
const MAIN = 'main';

export const opencode: Format = {
  name: NAME,
  summary:
    'Sessions of opencode: exports {info, messages: [{info, parts}]}, and its files of sessions, messages and parts',
  recognises: ({ records }) => records.some(isOpencode),
  gathers: () => `import:${NAME}`,
  rereads: listed,
  convert,
};

function convert(record: NativeRecord): Conversion {
  const { sessions, refusals, broken } = sessionsIn(listsOf(record.value).flat());
  const byId = new Map(sessions.map((session) => [session.id, session]));
  const nonEmpty = sessions.filter(({ messages }) => messages.length > 0);
  if (nonEmpty.length === 0 && refusals.length === 0)
    return refused(refusal('bad_shape', '', 'at least one message of a session', record.value));
  return {
    drafts: nonEmpty.flatMap((session) => sessionDrafts(record, session, byId, broken.has(session.id))),
    refusals,
    raw: null,
    bodies: nonEmpty.map(({ records }) => writtenJson(records)),
  };
}

/** The session at the head of a chain of tasks, as far as it is known. */
function rootOf(session: Session, byId: ReadonlyMap<string, Session>): string {
  const seen = new Set<string>();
  let id = session.id;
  for (let parent = parentOf(session); parent !== null && !seen.has(parent); ) {
    seen.add(parent);
    id = parent;
    const known = byId.get(parent);
    parent = known ? parentOf(known) : null;
  }
  return id;
}

const textsOf = ({ parts }: SessionMessage): string =>
  parts
    .flatMap(({ type, text, synthetic }) => (type === 'text' && typeof text === 'string' && !synthetic ? [text] : []))
    .join('\n');

function sessionDrafts(
  record: NativeRecord,
  session: Session,
  byId: ReadonlyMap<string, Session>,
  broken: boolean,
): readonly Draft[] {
  const { id, info, messages, records } = session;
  const parent = parentOf(session);
  const episodeId = rootOf(session, byId);
  const agentId = parent === null ? MAIN : id;
  const asker = parent === null ? 'user' : parent === episodeId ? MAIN : parent;
  const answers = messages.filter((message) => message.info.role === 'assistant');
  const named = [answers[0]?.info.agent ?? answers[0]?.info.mode].find(isIdentifier);
  const member = {
    agent_id: agentId,
    name: named ?? agentId,
    ...(parent === null ? {} : { parent_agent_id: asker, role: named }),
    model: answers.map((message) => message.info.modelID).find(isIdentifier),
  };
  const startedAt = timeOfMs(isRecord(info?.time) ? info.time.created : undefined);
  const canonical = writtenJson(records);
  const trace = Trace.revised(NAME, { ...record, canonical }, episodeId);
  // The session of a sub-agent begins and ends within that of the main agent.
  if (parent !== null) {
    trace.events.push(rawRecord(emit, episodeId, canonical).draft);
    trace.add('agent.defined', [agentId], member, startedAt);
  }
  addThread(trace, messages, agentId, asker);
  if (parent !== null) return trace.events;
  const last = answers.at(-1);
  const error = isRecord(last?.info.error) ? last.info.error.name : undefined;
  const first = messages.find((message) => message.info.role === 'user');
  const { directory, version, title } = info ?? {};
  return trace.finish({
    // Without the session its first message may not be at hand.
    task: taskOf(NAME, first && info !== null ? textsOf(first) : undefined),
    incomplete: broken || info === null,
    started: {
      session_id: episodeId,
      tags: without({ directory, version, title }),
    },
    startedAt: startedAt ?? timeOfMs(isRecord(first?.info.time) ? first.info.time.created : undefined),
    agents: [member],
    finished: {
      outcome: error === 'MessageAbortedError' ? 'aborted' : error === undefined ? 'unknown' : 'error',
      answer: (last && textsOf(last)) || undefined,
      stop_reason: [error ?? last?.info.finish].find(isIdentifier),
    },
    finishedAt: timeOfMs(isRecord(last?.info.time) ? last.info.time.completed : undefined),
  }).drafts;
}
