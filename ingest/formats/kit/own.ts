/** `troupe/format`: what a format of a user's own is made of. */
export { canonicalJson, hashId, isRecord, sha256 } from '../../events/json.ts';
export { isIdentifier } from '../../events/text.ts';
export type { ChatMessage } from './chat-message.ts';
export { conversationIn } from './conversation.ts';
export type { Conversion, Format, Head, NativeRecord } from './format.ts';
export { emitterFor, recordId, revisedEmitter, taskIdOfText } from './native.ts';
export { format, isBoolean, isNumber, isWhole, Reader, unreadable } from './reader.ts';
export { NO_TOKEN_IDS, taskOf, timeOfSeconds, timeOfText } from './run.ts';
export { Trace } from './trace.ts';
export { usageOf } from './usage.ts';
