/** An episode as people read it: what happened in order, then what was judged of it. */
import { asText, isRecord } from '../../../ingest/events/json.ts';
import type {
  CallEntry,
  Candidate,
  EpisodeEntry,
  PromptMessage,
  RecordRow,
  ToolEntry,
} from '../../../store/explore/episodes/entries.ts';
import type { EpisodePage } from '../../../store/explore/episodes/read-page.ts';
import type { Printer } from '../operation.ts';
import { shownFlags } from './text.ts';

/** Characters of one text that are shown unless all is asked for. */
const SHOWN = 1200;

type Style = Pick<Printer, 'full' | 'paint'>;

/** One page: the line above it, what happened, and what was judged of it. */
export function shown(page: EpisodePage, printer: Printer): string {
  if (page.truncated.length > 0)
    printer.say(`Only the beginning of ${page.truncated.join(', ')} is here; troupe sql reads the rest.`);
  return [
    ...(printer.goesOn ? [] : [heading(page, printer)]),
    ...page.conversation.map((entry) => entryText(entry, printer)),
    ...judgementTables(page, printer),
  ]
    .map((part, i) => (i === 0 && !printer.goesOn ? part : `\n${part}`))
    .join('\n');
}

/** The line above the conversation. */
export function heading({ episode }: EpisodePage, { paint }: Pick<Printer, 'paint'>): string {
  const about = ['task_id', 'outcome', 'reward', 'agents', 'steps', 'started_at']
    .filter((name) => episode[name] !== null && episode[name] !== undefined)
    .map((name) => `${name.replace(/_id$|_at$/, '')} ${plain(episode[name])}`);
  if (episode.closed === false) about.push('open: its end is not recorded');
  const flags = shownFlags(episode);
  if (flags.length > 0) about.push(`flagged ${flags.join(', ')}`);
  return `${paint.bold(safe(`Episode ${asText(episode.episode_id)}`))}${about.length > 0 ? safe(` · ${about.join(' · ')}`) : ''}`;
}

/** One entry of the conversation: who, what is known about it, and the texts below. */
export function entryText(entry: EpisodeEntry, shown: Style): string {
  const who = entry.who ?? 'unknown';
  if (entry.kind === 'call') return callText(entry, shown);
  if (entry.kind === 'tool_call') return toolText(entry, shown);
  if (entry.kind === 'decision') return block(who, [`decision ${entry.decision_kind}`], plain(entry.decision), shown);
  return block(who, [entry.channel && `to ${entry.channel}`], contentText(entry), shown);
}

function callText(call: CallEntry, shown: Style): string {
  const parts = call.prompt.map((message) => promptText(message, shown));
  const about = [
    call.role !== null && call.role !== call.who ? call.role : null,
    call.checkpoint_id === null ? call.model : `checkpoint ${call.checkpoint_id.slice(0, 12)}`,
    call.input_tokens === null ? null : `${call.input_tokens} tokens in`,
    call.output_tokens === null ? null : `${call.output_tokens} out`,
    call.latency_ms === null ? null : `${Math.round(call.latency_ms)} ms`,
    call.error === null ? null : `error ${plain(call.error)}`,
  ];
  const who = call.who ?? 'unknown';
  const { candidates } = call;
  if (candidates.length === 0) parts.push(block(who, [...about, 'no answer recorded'], '', shown));
  else if (candidates.length === 1)
    parts.push(block(who, [...about, ...candidateNotes(candidates[0]!)], contentText(candidates[0]!), shown));
  else {
    parts.push(block(who, [...about, `${candidates.length} candidates`], '', shown));
    for (const candidate of candidates) {
      const chosen = candidate.chosen === null ? null : candidate.chosen ? 'chosen' : 'not chosen';
      parts.push(
        block(
          `candidate ${candidate.candidate}`,
          [chosen, ...candidateNotes(candidate)],
          contentText(candidate),
          shown,
        ),
      );
    }
  }
  return parts.join('\n\n');
}

const promptText = (message: PromptMessage, shown: Style): string =>
  block(
    message.sender ?? message.role ?? 'unknown',
    [message.sender === null ? null : message.role, 'prompt'],
    contentText(message),
    shown,
  );

/** The text, and a line for each image or file beside it. */
function contentText({ text, content }: { readonly text: string | null; readonly content: unknown }): string {
  if (text === null) return partsOf(content).map(partText).join('\n');
  return [
    text,
    ...filesIn(content).map(
      (file) => `[${asText(file.media_type)}, ${asText(file.size)} bytes, artifact ${asText(file.artifact_id)}]`,
    ),
  ]
    .filter((line) => line !== '')
    .join('\n');
}

/** A message of several parts, or of nothing but calls, has its parts in a list or beside what else is kept of it. */
function partsOf(content: unknown): readonly unknown[] {
  const parts = isRecord(content) ? content.parts : content;
  const areParts = Array.isArray(parts) && parts.every((part) => isRecord(part) && typeof part.type === 'string');
  return areParts ? parts : [content];
}

function partText(part: unknown): string {
  if (isRecord(part) && part.type === 'tool_call')
    return `calls ${asText(part.name)} ${plain(part.arguments_raw ?? part.arguments)}`;
  return isRecord(part) && typeof part.content === 'string' ? part.content : plain(part);
}

/** What views show in the place of an image or a file. */
function filesIn(content: unknown): readonly Readonly<Record<string, unknown>>[] {
  if (Array.isArray(content)) return content.flatMap(filesIn);
  if (!isRecord(content)) return [];
  const { artifact_id, media_type, size } = content;
  const named = typeof artifact_id === 'string' && typeof media_type === 'string' && typeof size === 'number';
  return named ? [content] : Object.values(content).flatMap(filesIn);
}

const candidateNotes = (one: Candidate): readonly (string | null)[] => [
  one.step_id,
  one.untrainable === null ? 'trainable' : `not trainable: ${one.untrainable}`,
  ...one.rewards.map(({ method, value }) => (value === null ? null : `reward ${rounded(value)} by ${method}`)),
  ...one.credits.map(({ method, value }) => (value === null ? null : `credit ${rounded(value)} by ${method}`)),
];

function toolText(tool: ToolEntry, shown: Style): string {
  const { name, status, flags, arguments: given, arguments_raw, output, error } = tool;
  const texts = [plain(given) || (arguments_raw ?? ''), plain(output), plain(error)].filter(Boolean);
  return block(`tool ${name ?? 'unknown'}`, [status ?? 'no result', ...flags], texts.join('\n→ '), shown);
}

const rounded = (value: number): string => String(Number(value.toPrecision(4)));

/** What was recorded and judged, as tables. */
function judgementTables({ feedback, verdicts, credits }: EpisodePage, { table }: Printer): string[] {
  const some = (
    head: readonly string[],
    rows: readonly RecordRow[],
    cells: (row: RecordRow) => readonly unknown[],
  ): string[] => (rows.length === 0 ? [] : [table(head, rows.map(cells))]);
  return [
    ...some(['feedback', 'about', 'value', 'why'], feedback, (f) => [
      f.name ?? f.kind,
      `${plain(f.target_id ?? f.target_kind)}${f.no_such_step === true ? ' (no such step)' : ''}`,
      f.value ?? f.label,
      f.explanation,
    ]),
    ...some(['method', 'step', 'verdict', 'reason'], verdicts, (v) => [
      v.method,
      v.step_id,
      v.keep ? 'keep' : 'drop',
      v.reason,
    ]),
    ...some(['credit by', 'step', 'value', 'why'], credits, (c) => [c.method, c.step_id, c.value, c.reason]),
  ];
}

function block(who: string, notes: readonly (string | null)[], text: string, { full, paint }: Style): string {
  const all = Array.from(text);
  const cut = full || all.length <= SHOWN ? '' : `\n… ${all.length - SHOWN} more characters (--full)`;
  const body = `${cut ? all.slice(0, SHOWN).join('') : text}${cut}`;
  const note = notes.filter((one) => one !== null && one !== '').join(' · ');
  const head = `${paint.cyan(safe(who))}${note ? paint.dim(` · ${safe(note)}`) : ''}`;
  return body === '' ? head : `${head}\n${safe(body).replaceAll(/^/gm, '  ')}`;
}

/** Terminals obey control characters; a recorded text must not. */
const safe = (text: string): string => text.replaceAll(/[^\P{Cc}\n\t]/gu, '\uFFFD');

const plain = (value: unknown): string =>
  value === null || value === undefined ? '' : typeof value === 'string' ? value : JSON.stringify(value);
