/**
 * Which texts of an event are images and files: a data URL, or base64 whose media type stands beside it. The chat, Responses, Messages and
 * Gemini interfaces, OTel GenAI, MCP and LangChain write them so: `image_url`, `input_image`, `input_audio`, `input_file`, `file`,
 * `image`, `document`, `inline_data`, `blob`.
 */

/** What a text says of itself: from `at` on it is base64 of this media type. */
export type Base64Text = { readonly at: number; readonly media_type: string };

/** Bytes of the largest file that stays in its message. */
const MOST_IN_PLACE = 1024;

/** Whether the base64 from there on, padding left out, is of more bytes. */
const isLarge = (text: string, at: number): boolean =>
  text.length - at - (text.endsWith('==') ? 2 : text.endsWith('=') ? 1 : 0) > Math.ceil((MOST_IN_PLACE * 4) / 3);

/** Members that hold base64 beside a media type. `content` is one only in a part of type `blob`. */
const DATA: ReadonlySet<string> = new Set([
  'data',
  'file_data',
  'base64',
  'blob',
  'image',
  'bytes',
  'content',
  'result',
]);
/** Members that hold a URL. */
const URLS: ReadonlySet<string> = new Set([
  ...['url', 'uri', 'image_url', 'audio_url', 'video_url', 'file_url', 'image_urls', 'images', 'source'],
]);
const MEDIA_TYPES = ['media_type', 'mime_type', 'mimeType', 'mediaType', 'type'] as const;
const MEDIA_TYPE = /^[a-z]+\/[\w.+-]{1,100}$/i;
const DATA_URL = /^data:([a-z]+\/[\w.+-]{1,100})?(?:;[\w.+-]+=[^;,"]{1,100})*;base64,/i;
/** With the letters of base64url and the line breaks of MIME, which are read as base64 and written otherwise. */
const BASE64 = /^[\w+/=\s-]*$/;
/** `format` of audio, and ends of the names of files. */
const BY_FORMAT: Readonly<Record<string, string>> = {
  wav: 'audio/wav',
  mp3: 'audio/mpeg',
  flac: 'audio/flac',
  opus: 'audio/opus',
  aac: 'audio/aac',
  pcm16: 'audio/pcm',
  png: 'image/png',
  jpg: 'image/jpeg',
  jpeg: 'image/jpeg',
  gif: 'image/gif',
  webp: 'image/webp',
  pdf: 'application/pdf',
  txt: 'text/plain',
  csv: 'text/csv',
};
const UNKNOWN = 'application/octet-stream';

/** What the text in this member of this object is; null where it is no image or file, or a small one. */
export function base64Text(text: string, member: string, holder: Readonly<Record<string, unknown>>): Base64Text | null {
  if (!isLarge(text, 0) || !(DATA.has(member) || URLS.has(member))) return null;
  if (member === 'content' && holder.type !== 'blob') return null;
  const url = text.startsWith('data:') ? DATA_URL.exec(text.slice(0, 512)) : null;
  if (url !== null) {
    const media_type = url[1]?.toLowerCase() ?? typeBeside(holder) ?? 'text/plain';
    return isLarge(text, url[0].length) ? { at: url[0].length, media_type } : null;
  }
  const media_type = DATA.has(member) && BASE64.test(text.slice(0, 512)) ? typeBeside(holder) : null;
  return media_type === null ? null : { at: 0, media_type };
}

function typeBeside(holder: Readonly<Record<string, unknown>>): string | null {
  for (const name of MEDIA_TYPES) {
    const value = holder[name];
    if (typeof value === 'string' && MEDIA_TYPE.test(value)) return value.toLowerCase();
  }
  const { type, format, output_format: made, filename } = holder;
  for (const one of [format, type === 'image_generation_call' ? (made ?? 'png') : null])
    if (typeof one === 'string' && Object.hasOwn(BY_FORMAT, one)) return BY_FORMAT[one]!;
  const ending = typeof filename === 'string' ? (filename.toLowerCase().split('.').at(-1) as string) : '';
  if (Object.hasOwn(BY_FORMAT, ending)) return BY_FORMAT[ending]!;
  return typeof filename === 'string' || 'file_data' in holder || type === 'blob' ? UNKNOWN : null;
}

/** A file inside of a longer text, such as an attribute of a span that holds messages as JSON: from `from` to `to` it is base64. */
export type EmbeddedFile = { readonly from: number; readonly to: number; readonly media_type: string };

/** Begins where a run of such letters does: in a shorter one each letter would be the beginning of another try. */
const RUN = /(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{1366,}={0,2}/g;
const URL_BEFORE = /data:([a-z]+\/[\w.+-]{1,100})(?:;[\w.+-]+=[^;,"]{1,100})*;base64,$/i;
/** A media type beside a member, both perhaps quoted once more. */
const TYPE_BESIDE = /"(?:media_type|mime_type|mimeType|mediaType)\\*"\s*:\s*\\*"([a-z]+\/[\w.+-]{1,100})\\*"/i;
/** Characters around base64 in which its media type is looked for. */
const NEAR = 300;

/** The files in a text, in their order. */
export function filesIn(text: string): readonly EmbeddedFile[] {
  const found: EmbeddedFile[] = [];
  for (const { 0: run, index: from } of text.matchAll(RUN)) {
    const to = from + run.length;
    const before = text.slice(Math.max(0, from - NEAR), from);
    const url = URL_BEFORE.exec(before)?.[1];
    const beside = before.endsWith('"') ? TYPE_BESIDE.exec(before + text.slice(to, to + NEAR))?.[1] : undefined;
    const media_type = url ?? beside;
    if (media_type !== undefined && isLarge(run, 0)) found.push({ from, to, media_type: media_type.toLowerCase() });
  }
  return found;
}

/** The bytes of the base64 from there on; null where writing them as base64 would not give the same text. */
export function bytesOf(text: string, at: number): Buffer | null {
  const written = at === 0 ? text : text.slice(at);
  const bytes = Buffer.from(written, 'base64');
  return bytes.toString('base64') === written ? bytes : null;
}
