/**
 * Sessions of Claude Code, `~/.claude/projects/<folder>/<session>.jsonl` and `<session>/subagents/agent-<id>.jsonl`: a line for each
 * message, and for each block of an answer. Read from what version 2.1.197 (npm @anthropic-ai/claude-code) writes against a scripted
 * model server; the older form, sub-agents within the file of their parent, from public notes on versions 1.0 to 2.0.
 *
 * A file is one record: a sub-agent's names the session it belongs to in each line, so that both are one episode.
 */
import type { Draft } from '../../events/events.ts';
import { groupBy } from '../../events/group-by.ts';
import { isRecord, type JsonObject, without } from '../../events/json.ts';
import { pushAll } from '../../events/push-all.ts';
import { writtenJson } from '../../events/spelling.ts';
import { isIdentifier } from '../../events/text.ts';
import type { Conversion, NativeRecord, NativeRefusal } from '../kit/format.ts';
import { lineFormat } from '../kit/lines.ts';
import { refusal, refused, revisedEmitter } from '../kit/native.ts';
import { NO_TOKEN_IDS, taskOf, timeOfText } from '../kit/run.ts';
import { type Run, Trace } from '../kit/trace.ts';
import {
  agentsOf,
  badLine,
  blocksOf,
  copiesIn,
  idsOf,
  isSessionLine,
  type Line,
  MAIN,
  originalsIn,
  promptOf,
  unknownKind,
} from './claude-code-lines.ts';
import { addThread, hasGap, isHeadless, placeOf } from './claude-code-thread.ts';

const NAME = 'claude-code';

export const claudeCode = lineFormat({
  name: NAME,
  summary: 'Claude Code sessions and their sub-agents: lines of {type, message, uuid, parentUuid, sessionId}',
  isLine: isSessionLine,
  joins: {
    names: (lines) => namesOf(lines).map(([session, agent]) => JSON.stringify([session, agent])),
    episodes: (lines) => [...new Set(namesOf(lines).map(([session]) => session))],
    marks: ({ uuid, parentUuid, logicalParentUuid }) => [[uuid], [parentUuid, logicalParentUuid]],
    timeOf: ({ timestamp }) => timeOfText(timestamp),
    originals: originalsIn,
  },
  convert,
});

function convert(list: readonly unknown[], record: NativeRecord): Conversion {
  const copies = copiesIn(list);
  const originOf = (fields: JsonObject) => idsOf(fields).flatMap((id) => record.copied?.get(id) ?? [])[0];
  const workflow = record.path === undefined ? undefined : WORKFLOW.exec(record.path)?.[1];
  const converted = convertSessions(
    NAME,
    list,
    record,
    (native, seq) => {
      if (!isRecord(native)) return [{ seq, fields: native as never }];
      const copied = originOf(native) !== undefined || idsOf(native).some((id) => copies.has(id));
      return [{ seq, fields: native, copied }];
    },
    (_, lines) => ({ workflow, origin: lines.map(({ fields }) => originOf(fields)).findLast(isIdentifier) }),
  );
  const unread = list.flatMap((line) => (badLine(line) === null ? (unknownKind(line as JsonObject) ?? []) : []));
  return { ...converted, unread };
}

/** The sessions in a file whose records are lines in the manner of Claude Code, or are made such: `linesOf` begins with its own line. */
export function convertSessions(
  name: string,
  list: readonly unknown[],
  record: NativeRecord,
  linesOf: (native: unknown, seq: number) => readonly Line[],
  besideOf: (session: string, lines: readonly Line[]) => Omit<Beside, 'broken'>,
): Conversion {
  const refusals: NativeRefusal[] = [];
  const sessions = new Map<string, Line[]>();
  const seen = new Set<unknown>();
  const broken = new Set<unknown>();
  for (const [seq, native] of list.entries()) {
    const lines = linesOf(native, seq);
    const { fields } = lines[0]!;
    const bad = lines.map((line) => badLine(line.fields)).find((one) => one !== null);
    if (bad) {
      refusals.push({ ...bad, at: seq });
      if (isRecord(fields)) broken.add(fields.sessionId);
      continue;
    }
    const { sessionId, uuid } = fields;
    // A line without a session is no part of a conversation; one that was written twice counts once.
    if (!isIdentifier(sessionId) || (isIdentifier(uuid) && seen.has(uuid))) continue;
    seen.add(uuid);
    const own = sessions.get(sessionId) ?? [];
    pushAll(own, lines);
    sessions.set(sessionId, own);
  }
  const conversations = [...sessions].filter(([, lines]) => lines.some(isMessage));
  if (conversations.length === 0 && refusals.length === 0)
    return refused(refusal('bad_shape', '', 'at least one line of a user or an assistant', list));
  const raw = conversations.length > 0 ? writtenJson(list) : null;
  const drafts = conversations.flatMap(([id, lines]) => {
    const trace = new Trace(revisedEmitter(name), name, { ...record, canonical: raw! }, id);
    return sessionDrafts(name, trace, lines, { broken: broken.has(id), ...besideOf(id, lines) });
  });
  return { drafts, refusals, raw };
}

/** The sessions in these lines, each with the agent whose file they are of: null for the main agent's, which older sub-agents share. */
function namesOf(lines: readonly unknown[]): [session: string, agent: string | null][] {
  const found = new Map<string, [string, string | null]>();
  const named = lines.filter((line): line is JsonObject => isRecord(line) && isIdentifier(line.sessionId));
  const messages = named.filter(({ type }) => type === 'user' || type === 'assistant');
  for (const line of (messages.length > 0 ? messages : named) as (JsonObject & { sessionId: string })[]) {
    const agent = isIdentifier(line.agentId) ? line.agentId : null;
    found.set(JSON.stringify([line.sessionId, agent]), [line.sessionId, agent]);
  }
  return [...found.values()];
}

const isMessage = ({ fields }: Line): boolean => fields.type === 'user' || fields.type === 'assistant';
const timeOf = ({ fields }: Line): string | null => timeOfText(fields.timestamp);

/** What is known of the lines of a session beside what they say. */
type Beside = Partial<Pick<Run, 'started' | 'finished'>> & {
  readonly broken: boolean;
  readonly flags?: readonly string[];
  /** The model of the main agent. */
  readonly model?: string | undefined;
  /** The session that others of them are of. */
  readonly origin?: string | undefined;
  /** The workflow whose agents they are of: only the folder of their file names it. */
  readonly workflow?: string | undefined;
};

/** Where a workflow keeps the files of its agents. */
const WORKFLOW = /[\\/]subagents[\\/]workflows[\\/]([^\\/]+)[\\/][^\\/]+$/;

/** The events of a session, in the name of a format. */
function sessionDrafts(
  name: string,
  trace: Trace,
  lines: readonly Line[],
  { broken, flags = [], model, origin, workflow, started, finished }: Beside,
): readonly Draft[] {
  const { episodeId } = trace;
  const agentOf = agentsOf(lines);
  const threads = groupBy(lines, agentOf);
  const main = (threads.get(MAIN) ?? []).filter(isMessage);
  const alone = { session_id: episodeId, native: { format: name }, flags: [NO_TOKEN_IDS, 'incomplete'] };
  // The file of a sub-agent: its session begins and ends in the file of the main agent, whose beginning has a time and shows.
  if (main.length === 0) trace.add('episode.started', ['alone'], alone);
  addStartedAgents(trace, lines, agentOf, threads, workflow);
  for (const [agentId, own] of threads) addThread(trace, own, agentId);
  if (main.length === 0) return trace.part();
  const [first] = main as [Line];
  const last = main.findLast(({ fields }) => fields.type === 'assistant');
  const answer = last && blocksOf(last.fields).flatMap(({ text }) => (typeof text === 'string' ? [text] : []));
  const { cwd, gitBranch, version, teamName, agentName, forkedFrom } = first.fields;
  const parent = isRecord(forkedFrom) ? forkedFrom.sessionId : origin;
  const reason = (last?.fields.message as JsonObject | undefined)?.stop_reason;
  return trace.finish({
    // The first prompt of a later part is not what the session began with.
    task: isHeadless(threads.get(MAIN)!, MAIN)
      ? null
      : taskOf(
          name,
          main.map(({ fields }) => promptOf(fields)).find((text) => text !== null),
        ),
    incomplete: broken || hasGap(threads.get(MAIN)!, MAIN),
    flags,
    started: {
      session_id: episodeId,
      parent_episode_id: isIdentifier(parent) && parent !== episodeId ? parent : undefined,
      tags: without({ cwd, git_branch: gitBranch, version, team: teamName, teammate: agentName }),
      ...started,
    },
    startedAt: timeOf(first),
    agents: [{ agent_id: MAIN, model }],
    finished: {
      outcome: 'unknown',
      answer: answer && answer.length > 0 ? answer.join('\n') : undefined,
      stop_reason: typeof reason === 'string' ? reason : undefined,
      ...finished,
    },
    finishedAt: timeOf(main.at(-1)!),
  }).drafts;
}

/** The tools that start an agent, by the names they have had. */
const STARTS = new Set(['Task', 'Agent']);

/**
 * The sub-agents of these lines. The parent's file names each whose call has a result (`toolUseResult.agentId`, after the agent's
 * last line). The agent's own file defines it at the time of its first line, so a definition from the parent's file stays valid.
 */
function addStartedAgents(
  trace: Trace,
  lines: readonly Line[],
  agentOf: (line: Line) => string,
  threads: ReadonlyMap<string, readonly Line[]>,
  workflow: string | undefined,
): void {
  const calls = new Map<unknown, { readonly block: JsonObject; readonly line: Line }>();
  for (const line of lines.filter(({ fields, copied }) => fields.type === 'assistant' && !copied)) {
    for (const block of blocksOf(line.fields))
      if (STARTS.has(block.name as string)) calls.set(block.id, { block, line });
  }
  for (const [agentId, thread] of threads) {
    if (agentId === MAIN || !thread.some(isMessage)) continue;
    const type = thread.map(({ fields }) => fields.attributionAgent).find(isIdentifier);
    const asked = thread.map(({ fields }) => promptOf(fields)).find((text) => text !== null);
    const started = calls.get(thread[0]!.fields.startedBy);
    const call = started ?? [...calls.values()].find(({ block }) => asked !== null && inputOf(block).prompt === asked);
    const by = call && agentOf(call.line) !== agentId ? call : undefined;
    addAgent(agentId, type ?? inputOf(by?.block).subagent_type, by, timeOf(thread[0]!));
  }
  for (const line of lines) {
    const result = isRecord(line.fields.toolUseResult) ? line.fields.toolUseResult : {};
    const block = blocksOf(line.fields).find(({ type }) => type === 'tool_result');
    const call = calls.get(block?.tool_use_id);
    if (!call || !isIdentifier(result.agentId) || threads.has(result.agentId)) continue;
    addAgent(result.agentId, result.agentType ?? inputOf(call.block).subagent_type, call, timeOf(line));
  }

  function addAgent(
    agentId: string,
    type: unknown,
    call: { readonly block: JsonObject; readonly line: Line } | undefined,
    time: string | null,
  ): void {
    const from = call ? agentOf(call.line) : MAIN;
    const { description, model } = inputOf(call?.block);
    const role = isIdentifier(type) ? type : undefined;
    const member = {
      agent_id: agentId,
      name: role ?? agentId,
      role,
      parent_agent_id: from,
      model: typeof model === 'string' ? model : undefined,
      unmapped: without({ description }),
    };
    trace.add('agent.defined', [agentId], member, time);
    const handed = { from_agent: from, to_agent: agentId, kind: 'delegate' } as const;
    if (call) {
      const reason = typeof description === 'string' ? description : undefined;
      const by = { ...placeOf(call.line), ...handed, tool_call_id: call.block.id as string, reason };
      trace.add('control.transferred', [agentId], by, timeOf(call.line));
    } else if (workflow !== undefined || type === WORKFLOW_AGENT)
      trace.add('control.transferred', [agentId, 'workflow'], { ...handed, reason: workflow }, time);
  }
}

/** The type of the agents of a workflow: its script starts them, no call of a model. */
const WORKFLOW_AGENT = 'workflow-subagent';

const inputOf = (block: JsonObject | undefined): JsonObject => (isRecord(block?.input) ? block.input : {});
