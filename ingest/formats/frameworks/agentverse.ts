/**
 * AgentVerse task solving and MAS-TTS, one run a line: the output of each module, round by round. Which of the recruited experts wrote it
 * stands only in the text of the modules, so the modules are the agents.
 */
import { canonicalJson, isRecord } from '../../events/json.ts';
import { format, type Reader, unreadable } from '../kit/reader.ts';
import { taskOf } from '../kit/run.ts';
import { Trace } from '../kit/trace.ts';

const NAME = 'agentverse';

export const agentverse = format({
  name: NAME,
  summary: 'AgentVerse and MAS-TTS results: {input, response, label, logs: [{module | agent, content}]}',
  called: 'a result object',
  recognises: (line) =>
    'input' in line &&
    Array.isArray(line.logs) &&
    line.logs.some((log) => isRecord(log) && ('module' in log || 'agent' in log)),
  convert(line, record) {
    const task = taskOf(NAME, line.any('input'), { ground_truth: line.any('label') });
    if (!task) return unreadable('bad_type', 'input', 'the text of the task', line.native.input);
    const seq = line.list('logs', LIST).length;
    const trace = Trace.of(NAME, record);
    let turn = 0;
    let verdict: string | undefined;
    for (const entry of line.each('logs', LIST, 'an entry object', entryOf)) {
      const { content } = entry;
      if (entry.speaker !== 'system') addEntry(trace, entry, turn);
      else {
        const judged = typeof content === 'string' ? verdictIn(content) : undefined;
        const { seq, unmapped } = entry;
        if (judged === undefined) trace.observed(seq, 'output', { turn, content, unmapped });
        else trace.decided(seq, judged, content, { turn: turn++, by: 'system', unmapped });
        verdict = judged ?? verdict;
      }
    }
    const spend = line.any('spend');
    return trace.finish(
      {
        task,
        finished: {
          outcome: verdict === 'accept' ? 'success' : verdict === 'reject' ? 'failure' : 'unknown',
          seq,
          answer: line.text('response'),
          totals: spend === undefined ? undefined : { spend },
          unmapped: line.rest(),
        },
      },
      line.problems,
    );
  },
});

const LIST = 'a list of entries';

function entryOf(entry: Reader, seq: number) {
  const speaker = entry.ownId('module' in entry.native ? 'module' : 'agent');
  const content = entry.any('content');
  if (typeof content !== 'string' && !isRecord(content))
    return unreadable('bad_type', entry.path('content'), 'a text or an object', entry.native.content);
  return { seq, speaker, content, unmapped: entry.rest() };
}

/** "Good score! Accept!" or "Bad score! Reject!" ends a round. */
const verdictIn = (content: string): 'accept' | 'reject' | undefined =>
  /\baccept/i.test(content) ? 'accept' : /\breject/i.test(content) ? 'reject' : undefined;

function addEntry(trace: Trace, { seq, speaker, content, unmapped }: ReturnType<typeof entryOf>, turn: number): void {
  const text = typeof content === 'string' ? content : canonicalJson(content);
  trace.answer(seq, speaker, text, { turn, unmapped });
  if (typeof content !== 'string') {
    // What a CEO decided, each by its kind; what it weighed stays in its text.
    const { decision, recruit_number: number, direction, maximum_tokens: tokens } = content;
    const word = typeof decision === 'string' ? decision.trim().toLowerCase() : '';
    const decided = (kind: string, what: unknown): void =>
      trace.add('decision.made', [seq, kind], { seq, turn, by: speaker, kind, decision: what });
    if (word === 'continue' || word === 'stop') decided(word, { decision });
    if (number !== undefined) decided('recruit', { recruit_number: number, direction });
    if (tokens !== undefined) decided('budget', { maximum_tokens: tokens });
  }
  if (speaker.toLowerCase() === 'evaluator') addScore(trace, seq, text, turn);
}

function addScore(trace: Trace, seq: number, text: string, turn: number): void {
  const value = scoreIn(/\bScore:\s*([^\n]*)/i.exec(text)?.[1]?.trim() ?? '');
  if (value === null) return;
  const { episodeId } = trace;
  trace.feedback([seq], {
    target: { kind: 'episode', id: episodeId, episode_id: episodeId, entry: seq },
    kind: 'score',
    name: 'evaluation',
    value,
    by: 'model',
    annotator: 'evaluator',
    seq,
    explanation: /\bAdvice:\s*([\s\S]*)/i.exec(text)?.[1]?.trim() || undefined,
    unmapped: { turn },
  });
}

/** True or False, a number, or a list of numbers; null for anything else. */
function scoreIn(word: string): boolean | number | number[] | null {
  if (/^(true|false)$/i.test(word)) return word.toLowerCase() === 'true';
  const numbers = word
    .replace(/^[[(]|[\])]$/g, '')
    .split(',')
    .map((one) => one.trim());
  if (!numbers.every((one) => /^-?\d+(\.\d+)?$/.test(one))) return null;
  return /^[[(]/.test(word) ? numbers.map(Number) : numbers.length === 1 ? Number(word) : null;
}
